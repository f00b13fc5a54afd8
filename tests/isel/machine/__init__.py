"""Tests of `nvbackend.isel.machine`."""
