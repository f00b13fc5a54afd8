"""Writes over a tile that TMA has loaded: its swizzle is no longer known."""

from __future__ import annotations

from nvbackend.simulator.checks.watching import Watching
from nvbackend.simulator.events import Access
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.swizzles import Swizzles


class OtherWrites(Watching):
    """The observer of one wave."""

    def __init__(self, wave: Wave) -> None:
        self._swizzles = wave.part(Swizzles)
        self._swizzles.is_watching = True

    def access(self, access: Access) -> None:
        """Every access; a load marks its tile after it has written it."""
        self._swizzles.forget(access)
