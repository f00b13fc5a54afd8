"""Tests of `nvbackend.builder.functions`."""
