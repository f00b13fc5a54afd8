"""Tests of `nvbackend.isel.select`."""
