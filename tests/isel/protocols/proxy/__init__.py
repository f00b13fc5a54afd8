"""Tests of `nvbackend.isel.protocols.proxy`."""
