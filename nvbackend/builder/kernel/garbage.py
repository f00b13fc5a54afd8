"""Python's garbage collector while kernels are built: nearly all that a build makes lives until the build ends."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 300_000
"""How many more objects than before make Python look for cycles inside a build; by itself it does so after 700."""


_BUILDER = "nvbackend.builder.kernel.kernel"


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Inside, Python looks for cycles less often: each look takes time for all objects, and finds none of a build's.

    The thresholds of before come back. Where they are as high already, as in a build inside a build or beside one in
    another thread, or where the program has turned the collector off, nothing changes. What the first build of a
    process imports lives as long as the process, and counts as old: Python would walk all of it as the block ends.
    """
    first, *others = gc.get_threshold()
    if not 0 < first < ALLOCATIONS:
        yield
        return
    imports = _BUILDER not in sys.modules
    gc.set_threshold(ALLOCATIONS, *others)
    try:
        yield
    finally:
        if imports and not gc.get_freeze_count():  # what a program has frozen itself stays frozen
            gc.freeze()
            gc.unfreeze()
        gc.set_threshold(first, *others)
