"""Tests of `nvbackend.intrinsics.maps`."""
