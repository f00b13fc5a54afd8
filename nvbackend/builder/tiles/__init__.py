"""Tiles: tensors, tiled copies, rings and roles."""
