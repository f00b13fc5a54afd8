"""Tests of `nvbackend.builder.lower`."""
