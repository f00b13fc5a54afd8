"""Loops whose body is emitted twice, so that registers are written while an mma reads those of the step before."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.builder.core.control import Control, holding
from nvbackend.builder.core.core import Core
from nvbackend.builder.values.values import Operand, Value


def turns(k: Core, control: Control, count: Operand) -> Iterator[Value]:
    """The number of each step, twice in the text of a loop: the steps of even number, and those of odd number."""
    with control.range(0, count, 2) as step:
        with holding(k, "k.wgmma.turns"):
            yield step
        control.break_if(step + 1 >= count)
        with holding(k, "k.wgmma.turns"):
            yield step + 1
