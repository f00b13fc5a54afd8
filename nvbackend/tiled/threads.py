"""The place of a thread in a layout of threads."""

from __future__ import annotations

from typing import Any

from nvbackend.layout import Layout
from nvbackend.layout.algebra.inttuple import leaves
from nvbackend.tiled.rules import THREAD


def check_thread(layout: Layout, thread: int, mma: object) -> None:
    """Raises tiled-mma.thread if `layout` maps nothing to `thread`."""
    taking_part = layout.offsets()
    if thread in taking_part:
        return
    last = max(taking_part)
    inside = 0 <= thread <= last
    problem = "others make up its atoms" if inside else f"they are numbered from 0 to {last}"
    instead = "lay more atoms over the warp, or leave it out" if inside else "count from its first thread"
    THREAD.fail(given=thread, mma=mma, problem=problem, instead=instead)


def thread_coordinate(layout: Layout, thread: Any) -> tuple[Any, Any, Any, Any]:
    """(V, M, N, K) of a thread, each one integer: CuTe's get_flat_coord.

    Each leaf's index is what its stride is reached with, below the next larger stride; the last one goes round.
    """
    parts = []
    for place, mode in enumerate(layout.modes):
        step = 1
        for extent, stride in zip(leaves(mode.shape), leaves(mode.stride), strict=True):
            if extent > 1:
                parts.append((stride, extent, place, step))
                step *= extent
    parts.sort()
    found: list[Any] = [0, 0, 0, 0]
    for number, (stride, extent, place, step) in enumerate(parts):
        around = parts[number + 1][0] if number + 1 < len(parts) else stride * extent
        index = thread % around if stride == 1 else thread % around // stride
        found[place] = found[place] + (index if step == 1 else index * step)
    v, m, n, k = found
    return v, m, n, k
