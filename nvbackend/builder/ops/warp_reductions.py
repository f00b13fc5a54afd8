"""Reductions and scans over the lanes of a warp by shuffles: of any type, any operation, and segments of any width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.variables import select
from nvbackend.builder.ops.combine import Combine, Several

Exchange: TypeAlias = "Callable[..., Any]"
"""`k.warp.shuffle`."""


def _distances(width: int) -> list[int]:
    """The powers of two below a width that is one."""
    return [1 << bit for bit in range(width.bit_length() - 1)]


def reduced(shuffle: Exchange, combine: Combine, values: Several, width: int, **how: Any) -> Several:
    """`values` of all lanes of a segment of `width`, combined, in each of them."""
    for distance in reversed(_distances(width)):
        others = tuple(shuffle(value, "bfly", distance, width=width, **how) for value in values)
        values = combine(values, others)
    return values


def scanned(k: Core, shuffle: Exchange, combine: Combine, values: Several, width: int, **how: Any) -> Several:
    """`values` of the lanes of a segment up to each lane, itself included, combined in their order."""
    for distance in _distances(width):
        shuffled = [shuffle(value, "up", distance, width=width, in_range=True, **how) for value in values]
        both = combine(tuple(other for other, _ in shuffled), values)
        values = tuple(select(k, shuffled[0][1], joint, own) for joint, own in zip(both, values, strict=True))
    return values


def shifted(
    k: Core, shuffle: Exchange, values: Several, first: Several, width: int, then: Combine | None = None, **how: Any
) -> Several:
    """`values` of the lane before each, each combined by `then` with `first`, which the first of a segment gets."""
    shuffled = [shuffle(value, "up", 1, width=width, in_range=True, **how) for value in values]
    others = tuple(other for other, _ in shuffled)
    if then is not None:
        others = then(first, others)
    return tuple(select(k, shuffled[0][1], other, own) for other, own in zip(others, first, strict=True))
