"""Which constants of the build to use for a head's dimension and length of rows: the ones that were fastest."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

WARPGROUP_ROWS, WARPGROUP_THREADS = 64, 128
"""Queries of a warpgroup, the rows of its instructions, and its threads."""
DEPTHS = (64, 128, 256)
"""Columns of a head."""
POLYNOMIAL = 4
"""How seldom a power of two is made by multiplies, where one is."""


@dataclass(frozen=True)
class Form:
    """What differs by the head's dimension and by how long the rows are. Causal tiles have whole blocks of queries."""

    consumers: int = 2
    block: int = 128  # keys of a step
    stages: int = 2
    q_stages: int = 2
    turns: bool = False  # whether warpgroups multiply in turns, by named barriers
    patient: bool = False  # whether weights may grow by 2^GROWTH before all that was summed is scaled
    polynomial: int = 0  # one of twice as many powers of two is made by multiplies; 0: none

    @property
    def label(self) -> str:
        """The constants, in words."""
        ways = {"turns": self.turns, "patient": self.patient, "polynomial": self.polynomial}
        queries = f"{WARPGROUP_ROWS * self.consumers} queries, {self.block} keys, {self.stages} stages"
        return ", ".join([queries, *(way for way, is_taken in ways.items() if is_taken)])


def tiles(depth: int, *, causal: bool) -> tuple[Form, ...]:
    """What fits registers and shared memory, the most queries first. Raises ValueError for another depth."""
    if depth not in DEPTHS:
        raise ValueError(f"heads have {', '.join(map(str, DEPTHS))} columns, not {depth}")
    if depth == 256:
        return (Form(block=WARPGROUP_ROWS, q_stages=1),)
    if depth == 128:
        return (Form(),)
    return Form(3, 96 if causal else 128, stages=3, q_stages=1), Form(stages=3)


def candidates(depth: int, rows: int, *, causal: bool) -> list[Form]:
    """Every form that can be chosen, in each of its ways to overlap; what `choose` gives is the first."""
    ways = itertools.product((False, True), (False, True), (0, POLYNOMIAL))
    every = (
        replace(tile, turns=turns, patient=patient, polynomial=polynomial)
        for (turns, patient, polynomial), tile in itertools.product(ways, tiles(depth, causal=causal))
    )
    return list(dict.fromkeys([choose(depth, rows, causal=causal), *every]))


def choose(depth: int, rows: int, *, causal: bool) -> Form:
    """The fastest of those that were measured: three warpgroups pay where a tile has many steps.

    Raises ValueError for a depth that no kernel has.
    """
    every = tiles(depth, causal=causal)
    if depth == 256:
        return replace(every[0], turns=True, patient=True)
    if depth == 128:
        return every[0]
    if rows >= (8192 if causal else 2048):
        return replace(every[0], turns=causal, patient=True)
    return replace(every[-1], turns=causal, polynomial=POLYNOMIAL if causal else 0)
