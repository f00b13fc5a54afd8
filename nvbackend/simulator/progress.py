"""The progress of a long launch: a line on a terminal, written by a thread of its own; nothing without a terminal."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

import numpy as np

from nvbackend.simulator.execution import Execution

_QUIET, _EVERY = 1.0, 0.25
"""Seconds before the first line, and between two."""
_CELLS = 24
_CLEAR = "\r\x1b[K"


class Progress:
    """Shows a launch's progress while it runs: `with Progress(execution): ...`."""

    def __init__(self, execution: Execution, stream: TextIO | None = None) -> None:
        self._execution = execution
        self._stream = sys.stderr if stream is None else stream
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._stream is not None and self._stream.isatty():
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        begin, shown = time.monotonic(), False
        while not self._ended.wait(_EVERY if shown else _QUIET):
            shown = True
            self._stream.write(f"{_CLEAR}{line(self._execution, time.monotonic() - begin)}")
            self._stream.flush()
        if shown:
            self._stream.write(_CLEAR)
            self._stream.flush()


def line(execution: Execution, seconds: float) -> str:
    """The line: a bar of the CTAs that have ended, and how many instructions have run."""
    wave, total = execution.wave, execution.ctas
    done, steps = execution.done, execution.report.steps
    if wave is not None and wave.alive_count:
        done += wave.cta_count - int(np.count_nonzero(wave.alive.reshape(wave.cta_count, -1).any(axis=1)))
        steps += wave.steps
    full = _CELLS * done // total
    bar = "#" * full + "." * (_CELLS - full)
    return f"{execution.launch.kernel} [{bar}] {done} of {total} CTAs, {steps:,} steps, {seconds:.0f} s"
