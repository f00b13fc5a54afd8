"""Tests of nvbackend.atoms."""
