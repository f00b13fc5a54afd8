"""Which numbers a choice may have: every other one is refused by name, before a kernel is built."""

from __future__ import annotations

from collections.abc import Collection

import nvbackend as nvb
from nvbackend import Major

MN_COLUMNS = 64
"""A multiple of so many columns has a tile of an MN-major right operand, whose lines are 128 bytes."""
MOST_ELEMENTS = 2**31
"""Of C, where kernels compute places in it in 32 bits."""


def positive(**numbers: object) -> None:
    """Raises ValueError unless all of them are integers of 1 or more."""
    for name, number in numbers.items():
        if not hasattr(number, "__index__") or number.__index__() < 1:
            raise ValueError(f"{name} is a positive integer, not {number!r}")


def among(legal: Collection[object], **chosen: object) -> None:
    """Raises ValueError unless all of them are legal ones."""
    for name, value in chosen.items():
        if value not in legal:
            raise ValueError(f"{name} is one of {', '.join(map(str, legal))}, not {value!r}")


def scaled(operand: nvb.ElementType, scale: float) -> None:
    """Raises ValueError for a scale of products that have none: those of 8-bit floats have one."""
    if scale != 1 and (operand.bits > 8 or operand.is_integer):
        raise ValueError(f"products of {operand} are not scaled, by {scale}")


def placed(m: int, n: int) -> None:
    """Raises ValueError for a C with too many elements."""
    if m * n > MOST_ELEMENTS:
        raise ValueError(f"places in C have 32 bits, and {m} x {n} elements are more than 2^31")


def stored(operand: nvb.ElementType, majors: Collection[Major], columns: int = 0) -> None:
    """Raises ValueError for operands, or `columns` of a right one, that tensor cores do not multiply MN-major."""
    if not isinstance(majors, tuple) or len(majors) != 2:
        raise ValueError(f"majors are a pair, that of A and that of B, not {majors!r}")
    among(tuple(Major), **dict(zip(("a_major", "b_major"), majors, strict=True)))
    if Major.MN in majors and operand.bits != 16:
        raise ValueError(f"operands of {operand} are stored with K along their rows: K-major")
    if columns % MN_COLUMNS:
        raise ValueError(
            f"a right operand that is MN-major has tiles of a multiple of {MN_COLUMNS} columns, not {columns}"
        )
