"""Tests of `nvbackend.builder.attached`."""
