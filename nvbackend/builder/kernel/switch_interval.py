"""How long a thread of Python keeps its turn while another one compiles a kernel."""

from __future__ import annotations

import sys

SECONDS = 1e-4
"""A turn while a kernel is compiled; Python's own are fifty times as long."""


class ShortTurns:
    """From `begin` to `end`, a thread that is busy in Python lets another one have its turn sooner than by itself.

    The thread that compiles gives up its turn with each call of LLVM and of the system, a dozen times, and would wait
    5 ms for another at the end of each call. The program's own interval comes back, if it has not set another one
    meanwhile; one that is as short already stays.
    """

    def __init__(self) -> None:
        self._before: float | None = None
        self._own = 0.0
        """The interval that was set, as Python rounds it."""

    def begin(self) -> None:
        """Make turns short."""
        before = sys.getswitchinterval()
        if before > SECONDS:
            sys.setswitchinterval(SECONDS)
            self._before, self._own = before, sys.getswitchinterval()

    def end(self) -> None:
        """Make them as long as before, once."""
        if self._before is not None and sys.getswitchinterval() == self._own:
            sys.setswitchinterval(self._before)
        self._before = None
