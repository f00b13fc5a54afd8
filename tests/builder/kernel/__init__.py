"""Tests of `nvbackend.builder.kernel`."""
