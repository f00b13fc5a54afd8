"""Tests of `nvbackend.intrinsics.row`."""
