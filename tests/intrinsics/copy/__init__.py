"""Tests of `nvbackend.intrinsics.copy`."""
