"""Tests of `nvbackend.isel.protocols.tmem`."""
