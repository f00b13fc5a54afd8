"""Builds in flight: a thread that asks for what another one builds waits for that."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

LONGEST_SECONDS = 30
"""How long a thread waits for another one, which may wait for a lock that this one holds."""
_THIS_THREAD = threading.local()


class _BuildInFlight:
    __slots__ = ("ended", "thread")

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.ended = threading.Event()

    def wait(self) -> None:
        """Wait for its end, and not for a thread that is gone, as in a process forked during the build."""
        for _ in range(LONGEST_SECONDS):
            if not self.thread.is_alive() or self.ended.wait(1.0):
                return


class BuildsInFlight:
    """The builds of one definition that go on, by what they build."""

    __slots__ = ("_builds", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._builds: dict[Hashable, _BuildInFlight] = {}

    @contextmanager
    def build(self, key: Hashable) -> Iterator[bool]:
        """A block in which `key` is built: others wait for its end. True after the end of such a block of another's.

        That may have failed, for its thread alone: the caller looks for its result, and else builds, without others
        that wait. A thread that builds does not wait, here or for another definition: so no two wait for each other.
        """
        own, waits = _BuildInFlight(), not getattr(_THIS_THREAD, "builds", False)
        try:
            with self._lock:
                other = self._builds.setdefault(key, own)
            has_waited = waits and other is not own
            if has_waited:
                other.wait()
            _THIS_THREAD.builds = True
            yield has_waited
        finally:
            _THIS_THREAD.builds = not waits
            with self._lock:
                if self._builds.get(key) is own:
                    del self._builds[key]
            own.ended.set()
