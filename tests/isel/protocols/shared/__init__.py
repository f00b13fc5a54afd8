"""Tests of `nvbackend.isel.protocols.shared`."""
