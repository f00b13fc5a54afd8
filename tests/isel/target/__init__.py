"""Tests of `nvbackend.isel.target`."""
