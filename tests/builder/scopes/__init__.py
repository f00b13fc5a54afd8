"""Tests of `nvbackend.builder.scopes`."""
