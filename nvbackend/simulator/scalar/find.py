"""Which function an opcode is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from nvbackend.simulator.scalar import (
    bitfields,
    bitwise,
    carries,
    comparisons,
    conversions,
    floats,
    functions,
    integers,
    narrow,
    packed,
    permutations,
    signs,
)
from nvbackend.simulator.scalar.pure import Pure, Spelling, Unknown

Maker = Callable[[Spelling], Pure]
_FAMILIES: tuple[Mapping[str, Maker], ...] = (
    integers.MAKERS,
    carries.MAKERS,
    packed.MAKERS,
    bitwise.MAKERS,
    bitfields.MAKERS,
    permutations.MAKERS,
    floats.MAKERS,
    signs.MAKERS,
    functions.MAKERS,
    comparisons.MAKERS,
    conversions.MAKERS,
    narrow.MAKERS,
)
"""Makers by the opcode's first part; where several have it, the first that knows the spelling."""


@cache
def find(parts: tuple[str, ...]) -> Pure | None:
    """The instruction spelt by these parts of an opcode, such as ("add", "rn", "f32"), or None."""
    for makers in _FAMILIES:
        if parts[0] in makers:
            spelling = Spelling(parts)
            try:
                pure = makers[parts[0]](spelling)
                spelling.ends()
            except Unknown:
                continue
            return pure
    return None
