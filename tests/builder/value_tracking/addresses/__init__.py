"""Tests of `nvbackend.builder.value_tracking.addresses`."""
