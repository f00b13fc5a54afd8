"""NumPy's numbers as Python's: an index from `np.arange` or an extent from `np.prod` counts as a number."""

from __future__ import annotations

import numbers
import operator
from typing import Any

_NUMPY = "numpy"


def plain_number(given: Any) -> Any:
    """A NumPy integer or float as a Python number; everything else unchanged, NumPy's truth values too."""
    if type(given).__module__ != _NUMPY:
        return given
    if isinstance(given, numbers.Integral):
        return operator.index(given)
    return float(given) if isinstance(given, numbers.Real) else given


def plain_numbers(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """`given` with its numbers plain, and those in its tuples; itself if all of them are plain."""
    for one in given:
        kind = type(one)
        if kind is tuple or kind.__module__ == _NUMPY:
            break
    else:
        return given  # most calls, and every operator of a value comes here
    return tuple(tuple(map(plain_number, one)) if type(one) is tuple else plain_number(one) for one in given)
