"""The rows of the catalogue by their spelling: what an instruction of a PTX text is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.row.row import Row


@cache
def rows_by_spelling() -> Mapping[str, tuple[Row, ...]]:
    """Every row of the catalogue; several have one spelling where they take other operands."""
    every: dict[str, list[Row]] = {}
    for row in rows():
        every.setdefault(row.ptx, []).append(row)
    return {spelling: tuple(alike) for spelling, alike in every.items()}


def rows_of(spelling: str) -> tuple[Row, ...]:
    """The rows that are spelled so; nothing where the catalogue has none."""
    return rows_by_spelling().get(spelling, ())
