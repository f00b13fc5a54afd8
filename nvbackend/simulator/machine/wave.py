"""What runs together: the CTAs of some clusters, their registers, memory, and operations in flight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import Addresses, Bits, By, Mask, Observer, Pending, Threads
from nvbackend.simulator.machine.lanes import Lanes

_Part = TypeVar("_Part")


@dataclass(eq=False)
class Waiting:
    """Lanes that cannot go on. `ready()` says for each of them whether it can now; `reason()` is for the report of a
    deadlock: what waits for what, such as `bar.sync 1: 32 of 128 threads have arrived`."""

    lanes: Lanes
    ready: Callable[[], Mask | bool]
    reason: Callable[[], str]
    again: bool = False


Step = Callable[["Wave", Lanes], Waiting | None]
Reader = Callable[["Wave", Lanes], Bits]
Writer = Callable[["Wave", Lanes, Bits], None]
"""Compiled once: what an instruction does, and how its operands are read and written."""


class Wave:
    """The CTAs that run together.

    CTAs are numbered from 0 in the wave; those of one cluster follow one another in the order of their rank. Each has
    `cta_threads` places for threads, a whole number of warps, of which the first `block_threads` exist.
    """

    block_threads: int
    cta_threads: int
    cta_count: int
    cluster_size: int
    observers: list[Observer]
    registers: list[Bits]
    pending: list[Pending]

    def part(self, kind: Callable[[Wave], _Part]) -> _Part:
        """The wave's one object of a class, `kind(wave)`, made at its first use."""
        raise NotImplementedError

    def read(self, by: By, space: str, addresses: Addresses, size: int) -> NDArray[np.uint8]:
        """The bytes at each address: shape (..., size) for addresses of shape (...)."""
        raise NotImplementedError

    def write(self, by: By, space: str, addresses: Addresses, data: NDArray[np.uint8]) -> None:
        """Set the bytes at each address: data of shape (..., size). Of equal addresses the last one stays."""
        raise NotImplementedError

    def locate(self, by: By, space: str, addresses: Addresses) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of addresses in shared memory, or generic ones of it: the CTA in the wave and the offset in its memory."""
        raise NotImplementedError

    def start(self, operation: Pending) -> None:
        """Put an operation in flight."""
        raise NotImplementedError

    def missing(self, lanes: Lanes, members: NDArray[np.uint32] | None = None) -> Lanes | None:
        """The lanes whose warp is not here with all of `members` that have not ended, or None. `members` has a bit a
        lane, for each of the lanes; None is all lanes of the warp."""
        raise NotImplementedError

    def cta(self, threads: Threads) -> NDArray[np.int64]:
        """The CTA in the wave of each thread."""
        return threads // self.cta_threads

    def rank(self, threads: Threads) -> NDArray[np.int64]:
        """The rank in its cluster of the CTA of each thread."""
        return self.cta(threads) % self.cluster_size
