"""Tests of k.math."""
