"""Tests of `nvbackend.isel.protocols.mbarrier`."""
