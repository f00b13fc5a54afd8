"""Tests of `nvbackend.intrinsics`."""
