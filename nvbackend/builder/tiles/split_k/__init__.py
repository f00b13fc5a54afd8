"""Sums of CTAs that multiply different parts of a depth: split-K and stream-K."""
