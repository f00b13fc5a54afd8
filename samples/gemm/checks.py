"""Which numbers a choice may have: every other one is refused by name, before a kernel is built."""

from __future__ import annotations

from collections.abc import Collection

import nvbackend as nvb


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
