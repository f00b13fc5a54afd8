"""Kernels of rows of the catalogue, each by the call of its opcode, on chips that have it and chips that do not."""

from __future__ import annotations

import functools
import random

from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.target.target import Target
from tests.support.random_kernels.writer import Writer
from tests.support.row_bench import Bench
from tests.support.row_calls import call_of

LEGAL = 0.95
"""Share of rows that are chosen among those of the target."""


@functools.cache
def _rows(family: str) -> tuple[Row, ...]:
    return tuple(FAMILIES[family]())


@functools.cache
def _families(target: Target) -> tuple[str, ...]:
    """The families of which the target has a row."""
    return tuple(family for family in FAMILIES if any(_has(row, target) for row in _rows(family)))


def _has(row: Row, target: Target) -> bool:
    return target.has(row.requires) and row.ptx_version <= target.ptx_version


def any_row(rng: random.Random, target: Target) -> Row:
    """A row of any family, most of the time one that the target has."""
    if rng.random() > LEGAL:
        return rng.choice(_rows(rng.choice(tuple(FAMILIES))))
    family = rng.choice(_families(target))
    while True:
        row = rng.choice(_rows(family))
        if _has(row, target):
            return row


def write(w: Writer, name: str) -> None:
    """A kernel of one to four rows."""
    has_clusters = w.target.number >= 90
    bench = w.call(Bench, w.target, name=name, cluster=w.one(1, 2, 2, 4) if has_clusters else 1, maps=has_clusters)
    if bench is None:
        return
    w.k = bench.k
    for _ in range(w.one(1, 1, 1, 2, 4)):
        row = any_row(w.rng, w.target)
        if not bench.maps and "tensor" in row.ptx:
            continue
        w.trace.append(f"row {row.ptx}")
        w.call(call_of(row), bench, row)
