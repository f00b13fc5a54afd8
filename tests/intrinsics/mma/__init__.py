"""Tests of `nvbackend.intrinsics.mma`."""
