"""From a choice of axes to a row, for the families whose rows need no request: what has no row is a diagnostic."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import ParamSpec

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.axes import NoSuchRow
from nvbackend.intrinsics.row.row import Row

Axes = ParamSpec("Axes")

VARIANT = Rule(
    id="instruction.variant",
    message="{instruction} has no such variant: {reason}",
    fix="use one of the values that are named, or another instruction",
    why="ptxas refuses any other spelling, and LLVM has no intrinsic for one.",
    reference="PTX ISA, the instruction's syntax; ptxas 13.5",
)


def variant(instruction: str, factory: Callable[Axes, Row], /, *axes: Axes.args, **named: Axes.kwargs) -> Row:
    """The row that `factory` has for these axes. Raises instruction.variant if it has none."""
    for given in (*axes, *named.values()):
        if not isinstance(given, Hashable):
            VARIANT.fail(instruction=instruction, reason=f"{given!r} is not one of its qualifiers")
    try:
        return factory(*axes, **named)
    except NoSuchRow as absent:
        reason = getattr(absent, "problem", str(absent))
    VARIANT.fail(instruction=instruction, reason=reason)
