"""Tests of `nvbackend.layout.algebra`."""
