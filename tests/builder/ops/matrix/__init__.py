"""Tests of `nvbackend.builder.ops.matrix`."""
