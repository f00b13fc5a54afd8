"""Which thread holds what, for every row that has fragments in registers: one map for each such operand.

A family that has fragments adds a line to `FRAGMENT_MAPS`; whatever shows or checks fragments goes through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from nvbackend.intrinsics import fragments, wgmma
from nvbackend.intrinsics.hierarchy import WARPGROUP_SIZE
from nvbackend.intrinsics.row import Row
from nvbackend.intrinsics.types import ElementType

Position = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FragmentMap:
    """Who holds an operand: each of `threads` threads has `elements` of it, `index` at `position(thread, index)`.

    `operand` is the row's operand; `tile` says in words what the positions are positions of.
    """

    operand: str
    threads: int
    elements: int
    tile: str
    position: Callable[[int, int], Position]


def _wgmma(row: Row) -> Iterator[FragmentMap]:
    axes: dict[str, Any] = dict(row.axes)
    if "shape" not in axes:
        return
    (m, n, k), a = axes["shape"], axes["a"]
    assert isinstance(a, ElementType)
    yield FragmentMap(
        "d", WARPGROUP_SIZE, m * n // WARPGROUP_SIZE, f"(row, column) of D, {m} x {n}", fragments.accumulator_position
    )
    stored = k // 2 if axes["sparse"] else k
    if axes["a_in_registers"]:
        packed = ", without the elements left out" if axes["sparse"] else ""
        yield FragmentMap(
            "a",
            WARPGROUP_SIZE,
            m * stored // WARPGROUP_SIZE,
            f"(row, column) of A, {m} x {stored}{packed}",
            partial(fragments.a_position, bits=a.bits),
        )
    if axes["sparse"]:
        yield FragmentMap(
            "metadata",
            WARPGROUP_SIZE,
            fragments.METADATA_CHUNKS,
            f"(row, first column) of A, {m} x {k}, that each 4 bits speak of",
            partial(fragments.metadata_chunk, bits=a.bits),
        )


FRAGMENT_MAPS: dict[str, Callable[[Row], Iterator[FragmentMap]]] = {
    wgmma.fence().family: _wgmma,
}
"""By the rows' family. A new family is one line."""


def fragment_maps(row: Row) -> list[FragmentMap]:
    """The maps of `row`'s operands; none where it has no fragments in registers."""
    maps = FRAGMENT_MAPS.get(row.family)
    return list(maps(row)) if maps is not None else []
