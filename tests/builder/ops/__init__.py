"""Tests of `nvbackend.builder.ops`."""
