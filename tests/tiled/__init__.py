"""Tests of nvbackend.tiled."""
