"""Tests of `nvbackend.builder.tiles.mma`."""
