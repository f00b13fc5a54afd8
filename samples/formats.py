"""Types that NumPy lacks: the bits of numbers, and the numbers that bits are."""

from __future__ import annotations

from typing import Any

import nvbackend as nvb
from nvbackend import bf16


def stored(numbers: Any, element: nvb.ElementType) -> Any:
    """An array of `element` with these numbers; of bf16 as bits, rounded to the nearest, ties to even."""
    import numpy as np

    if element is not bf16:
        return numbers.astype(element.numpy_dtype())
    bits = numbers.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def doubles(array: Any, element: nvb.ElementType) -> Any:
    """The numbers of an array of `element`, in f64."""
    import numpy as np

    if element is bf16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)
