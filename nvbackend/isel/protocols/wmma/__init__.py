"""wmma fragments: how they are loaded, stored and multiplied."""
