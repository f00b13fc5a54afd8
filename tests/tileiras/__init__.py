"""Tests of `nvbackend.tileiras`."""
