"""How far a measurement is: a line on standard error, or a function of the user's."""

from __future__ import annotations

import sys
from collections.abc import Callable

from nvbackend.diagnostics import printed, run_callback
from nvbackend.diagnostics.arguments import ARGUMENT

Progress = bool | Callable[[int, int, str], object]


class Steps:
    """Counts `total` steps and says each of them as `progress` asks for it. Raises call.argument for anything else."""

    def __init__(self, progress: Progress, total: int) -> None:
        if not callable(progress) and not isinstance(progress, bool):
            advice = "pass True, or a function of the steps done, the steps in all, and a text"
            ARGUMENT.fail(call="tune", problem=f"progress is {printed(progress)}", advice=advice)
        self._progress, self._total, self._done = progress, total, 0
        self._width = 0

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        """What is written after this begins a line of its own."""
        if self._width and sys.stderr is not None:
            sys.stderr.write("\n")

    def say(self, what: str, steps: int = 1) -> None:
        """`steps` more are done: `what`."""
        self._done += steps
        if callable(self._progress):
            run_callback("tune", self._progress, self._done, self._total, what)
        elif self._progress:
            self._write(f"{self._done} of {self._total}: {what}")

    def finish(self, what: str) -> None:
        """All steps are done."""
        self.say(what, self._total - self._done)

    def _write(self, text: str) -> None:
        """On a terminal in the place of the text before. A program without a console has no standard error."""
        if sys.stderr is None:
            return
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{text:<{self._width}}")
            self._width = len(text)
        else:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
