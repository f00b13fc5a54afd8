"""Tests of `nvbackend.intrinsics.words`."""
