"""For every rule the smallest program that breaks it, and the same program kept within it; docs/rules.md shows both."""
