"""Tests of `nvbackend.isel.verify`."""
