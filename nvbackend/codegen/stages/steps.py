"""What is done in steps, between which its caller does something else."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar, cast

_Result = TypeVar("_Result")


def last(steps: Generator[object, None, _Result]) -> _Result:
    """What a generator returns after all its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("_Result", end.value)
