"""Tests of `nvbackend.builder.core`."""
