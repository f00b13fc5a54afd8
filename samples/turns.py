"""How many sets of operands the launches use in turns, so that no launch finds its own in L2."""

BEYOND_L2 = 160_000_000
"""Bytes of all operands together."""
MOST = 24
LEAST = 16
"""Launches of a graph: what one graph after another costs counts little then."""


def turns_for(size: int) -> int:
    """How many sets of operands of `size` bytes do not fit L2."""
    return max(2, min(MOST, -(-BEYOND_L2 // size)))


def rounds_for(turns: int) -> int:
    """How often a graph goes through so many sets."""
    return -(-LEAST // turns)
