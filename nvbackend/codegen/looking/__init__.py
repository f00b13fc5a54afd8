"""How to look at a compiled kernel: its forms line by line, its share of an SM, its pages and files."""
