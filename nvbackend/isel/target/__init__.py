"""Exact chips, and the form of the rules that say what one of them supports."""
