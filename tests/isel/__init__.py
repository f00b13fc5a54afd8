"""Tests of `nvbackend.isel`."""
