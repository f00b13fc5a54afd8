"""Tests of `nvbackend.builder.tiles`."""
