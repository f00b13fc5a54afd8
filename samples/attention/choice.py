"""Which constants of the build suit a head's dimension and how long its rows are: those that measured fastest."""

from __future__ import annotations

from dataclasses import dataclass

WARPGROUP_ROWS, WARPGROUP_THREADS = 64, 128
"""Queries of a warpgroup, the rows of its instructions, and its threads."""


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


def choose(depth: int, rows: int, *, causal: bool) -> Form:
    """The fastest of those that were measured: three warpgroups pay where a tile has many steps."""
    if depth == 256:
        return Form(block=WARPGROUP_ROWS, q_stages=1, turns=True, patient=True)
    if depth == 128:
        return Form()
    if rows >= (8192 if causal else 2048):
        return Form(3, 96 if causal else 128, stages=3, q_stages=1, turns=causal, patient=True)
    return Form(stages=3, turns=causal, polynomial=4 if causal else 0)
