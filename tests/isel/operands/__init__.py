"""Tests of `nvbackend.isel.operands`."""
