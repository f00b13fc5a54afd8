"""Tests of nvbackend.layout."""
