"""Python's garbage collector while kernels are built: nearly all that a build makes lives until the build ends."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 100_000
"""How many more objects than before make Python look for cycles inside a build; by itself it does so after 700."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Inside, Python looks for cycles less often: each look takes time for all objects, and finds none of a build's.

    The thresholds of before come back. Where they are as high already, as in a build inside a build or beside one in
    another thread, or where the program has turned the collector off, nothing changes.
    """
    first, *others = gc.get_threshold()
    if not 0 < first < ALLOCATIONS:
        yield
        return
    gc.set_threshold(ALLOCATIONS, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)
