"""The simulator of PTX, room by room."""
