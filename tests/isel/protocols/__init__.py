"""Tests of `nvbackend.isel.protocols`."""
