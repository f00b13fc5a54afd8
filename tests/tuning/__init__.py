"""Tests of `nvbackend.tuning`."""
