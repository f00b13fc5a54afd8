"""Workers side by side: each has some problems, and another one goes on after a problem that ended one."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.sanitizer.heard import Heard, Outcome, Result
from tests.support.process import ROOT

MOST = 40
"""Problems of a process at most. Near the end each has fewer, so that all end at about the same time."""
Command = Callable[[Path], list[str]]
"""That of a worker, by the file with the names of its problems."""
Told = Callable[[list[Result]], None]
"""Is called with some more results."""


class Runs:
    """Runs problems by `jobs` workers, each problem for `limit` seconds at most, and begins none after `until`."""

    def __init__(self, command: Command, folder: Path, *, jobs: int, limit: float, until: float) -> None:
        self._command, self._folder, self._jobs, self._limit, self._until = command, folder, jobs, limit, until
        self._lock, self._numbers = threading.Lock(), itertools.count()
        self._processes: set[subprocess.Popen[str]] = set()

    def run(self, names: Iterable[str], told: Told = lambda _: None) -> list[Result]:
        """The result of each problem, in their order."""
        names = list(names)
        waiting, results = deque(names), dict[str, Result]()

        def work() -> None:
            while batch := self._taken(waiting):
                some = self._run(batch)
                with self._lock:
                    results.update({one.name: one for one in some})
                    told(some)

        with ThreadPoolExecutor(self._jobs) as executor:
            try:
                for future in [executor.submit(work) for _ in range(self._jobs)]:
                    future.result()
            except BaseException:
                self._stop()
                raise
        return [results[name] for name in names]

    def _taken(self, waiting: deque[str]) -> list[str]:
        """The problems of the next process; none where none are left."""
        with self._lock:
            count = min(MOST, -(-len(waiting) // (2 * self._jobs)))
            return [waiting.popleft() for _ in range(count)]

    def _run(self, names: list[str]) -> list[Result]:
        """Run them in one process after the other, as many as are needed."""
        results: list[Result] = []
        while names:
            if time.time() >= self._until:
                return results + [Result(name, Outcome.NOT_REACHED) for name in names]
            heard = Heard(names)
            why, status = self._follow(heard)
            results += (ended := heard.end(why, status))
            names = heard.left
            if not ended and time.time() < self._until:
                return results + [Result(name, Outcome.FAILED, heard.said(why)) for name in names]
        return results

    def _follow(self, heard: Heard) -> tuple[str, int | None]:
        """Why a process with all of its problems that are left ended, and its status, if that is its own."""
        file = self._folder / f"names{next(self._numbers)}"
        file.write_text("\n".join(heard.left))
        with self._started(file) as process:
            lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
            threading.Thread(target=_read_into, args=(process, lines), daemon=True).start()
            end = time.monotonic() + self._limit
            try:
                while (line := lines.get(timeout=max(0, end - time.monotonic()))) is not None:
                    if heard.hear(line):
                        end = time.monotonic() + self._limit
                status = process.wait(max(0, end - time.monotonic()))
            except (queue.Empty, subprocess.TimeoutExpired):
                return f"not ended after {self._limit:g} s", None
        return f"the process ended with status {status}", status

    @contextlib.contextmanager
    def _started(self, file: Path) -> Iterator[subprocess.Popen[str]]:
        """A worker, which is ended with all that it has started."""
        around = os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            self._command(file),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=ROOT,
            env=around,
            start_new_session=True,
        )
        with self._lock:
            self._processes.add(process)
        try:
            yield process
        finally:
            _end(process)
            process.wait()
            with self._lock:
                self._processes.discard(process)

    def _stop(self) -> None:
        """Begin nothing more, and end what runs."""
        with self._lock:
            self._until = 0
            for process in self._processes:
                _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and those it has started: they are a group of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _read_into(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put(None)
