"""The threads of a CTA as tables: a number for each of them, and sets of them."""
