"""Tests of `nvbackend.isel.protocols.wgmma`."""
