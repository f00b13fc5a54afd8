"""Tests of `nvbackend.isel.protocols.tensor_maps`."""
