"""Tests of `nvbackend.layout.pictures`."""
