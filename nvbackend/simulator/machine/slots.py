"""Where values live: a slot for each register, constant and special value, an array with one element a thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from nvbackend.ptx.syntax import Position
from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.wave import Wave

Initial = Callable[[Wave], Bits]


class Slots:
    """The slots of a program. `initial[i](wave)` is the array that slot i begins with."""

    def __init__(self) -> None:
        self.initial: list[Initial] = []
        self.names: dict[tuple[Position, str], int] = {}
        """The registers that the text names, by their declaration and name."""
        self._known: dict[Hashable, int] = {}

    def named(self, key: Hashable, initial: Initial) -> int:
        """The slot of a key, made with `initial` at its first use."""
        slot = self._known.get(key)
        if slot is None:
            slot = self._known[key] = len(self.initial)
            self.initial.append(initial)
        return slot

    def register(self, key: Hashable, dtype: Any, width: int = 1) -> int:
        """A register: zero in each thread; `width` elements a thread."""
        return self.named(key, lambda wave: wave.zeros(dtype, width))

    def constant(self, value: int, dtype: Any) -> int:
        """The same value in each thread, cut to the type."""
        cut = value & (1 << 8 * np.dtype(dtype).itemsize) - 1 if dtype is not np.bool_ else bool(value)
        return self.named((cut, dtype), lambda wave: np.full(wave.size, cut, dtype))
