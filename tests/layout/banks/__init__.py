"""Tests of `nvbackend.layout.banks`."""
