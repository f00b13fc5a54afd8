"""wmma: fragments of an opaque layout, and the product of three of them. PTX ISA 9.7.14.4.

The PTX ISA leaves open which thread holds which element. Here element i of lane l is place l * count + i of the matrix,
row by row, again from the start where the fragment has more elements than the matrix: 16-bit types do.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.tensor import elements
from nvbackend.simulator.tensor.fragments import REGISTER, WARP, Fragment
from nvbackend.simulator.tensor.models import warp_model
from nvbackend.simulator.tensor.products import Product

Array = NDArray[Any]
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_FLAGS = frozenset({"sync", "aligned", "row", "col", "shared", "shared::cta", "global", "popc"})


@cache
def fragment(rows: int, columns: int, width: int, registers: int) -> Fragment:
    """A matrix in so many registers of a lane."""
    count = registers * max(1, REGISTER // width)
    places = (np.arange(WARP) * count + np.arange(count)[:, None]) % (rows * columns)
    return Fragment(rows, columns, width, *np.divmod(places, columns))


@dataclass(frozen=True, slots=True)
class Spelling:
    """The pieces of an opcode of wmma: `layouts` are row or col, of A and B or of the matrix that is moved."""

    shape: tuple[int, int, int]
    types: tuple[str, ...]
    layouts: tuple[str, ...]
    saturate: bool
    operation: str
    rounding: str


def spelling(parts: tuple[str, ...]) -> Spelling | None:
    """The pieces after `wmma.load.a` and its like, None where one is unknown."""
    shape, types, layouts, saturate, operation, rounding = None, [], [], False, "", "rn"
    for part in parts:
        if found := _SHAPE.fullmatch(part):
            shape = (int(found[1]), int(found[2]), int(found[3]))
        elif part in ("row", "col"):
            layouts.append(part)
        elif part == "satfinite":
            saturate = True
        elif part in ("xor", "and"):
            operation = part
        elif part in ("rn", "rz", "rm", "rp"):
            rounding = part
        elif elements.is_type(part):
            types.append(part)
        elif part not in _FLAGS:
            return None
    return Spelling(shape, tuple(types), tuple(layouts), saturate, operation, rounding) if shape and types else None


def extents(shape: tuple[int, int, int], matrix: str) -> tuple[int, int]:
    """Rows and columns of A, B, C or D."""
    m, n, k = shape
    return {"a": (m, k), "b": (k, n)}.get(matrix, (m, n))


def product(found: Spelling, sm: int) -> Product | None:
    """What a wmma.mma computes: with two types, those of D and C, A and B are f16."""
    if len(found.types) == 2:
        (d, c), a, b = found.types, "f16", "f16"
    elif len(found.types) == 4:
        d, a, b, c = found.types
    else:
        return None
    if elements.is_integer(a) or a == "f64":
        if a == "b1" and not found.operation:
            return None
        return Product(a, b, c, d, None, found.saturate, found.operation, found.rounding)
    return Product(a, b, c, d, warp_model(sm, a, b, found.shape[2]))
