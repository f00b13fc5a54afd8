"""Tests of `nvbackend.isel.protocols.cluster`."""
