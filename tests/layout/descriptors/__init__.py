"""Tests of `nvbackend.layout.descriptors`."""
