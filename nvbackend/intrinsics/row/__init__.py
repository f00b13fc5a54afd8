"""The row, and what rows are written with: axes, features, guards, element types."""
