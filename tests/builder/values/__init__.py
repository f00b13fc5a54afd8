"""Tests of `nvbackend.builder.values`."""
