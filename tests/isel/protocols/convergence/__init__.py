"""Tests of `nvbackend.isel.protocols.convergence`."""
