"""Tests of `nvbackend.isel.flow`."""
