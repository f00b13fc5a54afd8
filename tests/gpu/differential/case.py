"""A call of the builder with what it is expected to give, and how the two are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nvbackend.intrinsics.row.types import ElementType
from tests.gpu.differential.rounding import Array

Judge = Callable[..., Array]
"""Of what came out, what was expected, and the columns: which are wrong."""


def same(got: Array, wanted: Array, *_: Array) -> Array:
    """Another number, another sign of zero, or NaN on one side alone."""
    if got.dtype.kind != "f":
        return got != wanted
    nan = np.isnan(got) & np.isnan(wanted)
    return ~nan & ((got != wanted) | (np.signbit(got) != np.signbit(wanted)))


@dataclass(frozen=True)
class Case:
    """A call: `name` is that of the public call, `text` says which form."""

    name: str
    text: str
    sources: tuple[ElementType, ...]
    result: ElementType
    emit: Callable[..., Any]
    wanted: Callable[..., Array]
    wrong: Judge = same

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.sources))}) {self.text}"
