"""What a compiled kernel became: its forms as lines with their places, its part of an SM, pages and files of it."""
