"""Python's garbage collector while kernels are built: nearly all that a build makes lives until the build ends."""

from __future__ import annotations

import gc
import sys
from types import TracebackType

ALLOCATIONS = 300_000
"""How many more objects than before make Python look for cycles inside a build; by itself it does so after 700."""


_BUILDER = "nvbackend.builder.kernel.kernel"


class RarelyCollected:
    """Inside, Python looks for cycles less often: each look takes time for all objects, and finds none of a build's.

    The thresholds of before come back. Where they are as high already, as in a build inside a build or beside one in
    another thread, or where the program has turned the collector off, nothing changes. What the first build of a
    process imports lives as long as the process, and counts as old: Python would walk all of it as the block ends. It
    does so while this thread waits for ptxas, where that is still at work.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None
        """The thresholds that come back."""
        self._imports = False

    def __enter__(self) -> RarelyCollected:
        first, *others = before = gc.get_threshold()
        if 0 < first < ALLOCATIONS:
            self._before, self._imports = before, _BUILDER not in sys.modules
            gc.set_threshold(ALLOCATIONS, *others)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._imports and not gc.get_freeze_count():  # what a program has frozen itself stays frozen
            gc.freeze()
            gc.unfreeze()
        self._end()

    def built(self) -> None:
        """Python may look now, while LLVM compiles what was built: as at the end, but for what the build imported."""
        if not self._imports:
            self._end()

    def waiting(self) -> None:
        """Python may look at what the first build has made and imported: this thread waits for ptxas.

        A first look takes as long as three later ones, of which each process has several as it ends.
        """
        if self._imports and gc.isenabled():
            gc.collect(0)

    def _end(self) -> None:
        if self._before is not None:
            gc.set_threshold(*self._before)
            self._before = None
