"""What the copy engine does when it completes: read, write, reduce, signal an mbarrier, by the async proxy."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.copies.reduction import combined
from nvbackend.simulator.copies.tma import rounded
from nvbackend.simulator.events import Addresses, By, Mask, Pending
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.memory import windows
from nvbackend.simulator.rules import NO_CLUSTER
from nvbackend.simulator.sync.faults import fail
from nvbackend.simulator.sync.mbarriers import Mbarriers
from nvbackend.simulator.sync.swizzles import Swizzles

_OFFSET = np.uint64((1 << windows.RANK_SHIFT) - 1)


@dataclass(frozen=True, slots=True)
class Side:
    """Pieces of `size` bytes in a state space, as PTX names it; of `mask` bytes where not all count."""

    space: str
    addresses: Addresses
    size: int
    mask: Mask | None = None


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a copy does with the bytes that are there: the operation and the type of the values."""

    operation: str
    type: str


@dataclass(eq=False)
class Engine(Pending):
    """An operation of the copy engine."""

    wave: Wave

    def by(self) -> By:
        """Who accesses memory for it."""
        return By(self.site, self.threads, operation=self, proxy="async")

    def get(self, side: Side) -> NDArray[np.uint8]:
        """The bytes, of shape (pieces, size)."""
        if not len(side.addresses):
            return np.zeros((0, side.size), np.uint8)
        return self.wave.read(self.by(), side.space, side.addresses, side.size)

    def put(self, side: Side, data: NDArray[np.uint8], reduction: Reduction | None = None) -> None:
        """Set the bytes, or combine them with those that are there; of a box outside of its tensor there are none."""
        addresses, size = side.addresses, side.size
        if side.mask is not None:
            chosen = np.broadcast_to(side.mask, data.shape)
            every = addresses[:, None] + np.arange(size, dtype=np.uint64)
            addresses, data, size = every[chosen].astype(np.uint64), data[chosen][:, None], 1
        if not len(addresses):
            return
        if reduction is None:
            self.wave.write(self.by(), side.space, addresses, data)
            return

        def change(old: NDArray[Any], which: NDArray[np.int64]) -> NDArray[Any]:
            before = np.ascontiguousarray(old).view(np.uint8).reshape(len(which), size)
            after = combined(reduction.operation, reduction.type, before, data[which])
            return after.view(old.dtype).reshape(old.shape)

        self.wave.memory.update(self.by(), side.space, addresses, size, change)

    def tell(self, barrier: int, count: int) -> None:
        """`count` bytes have come: the mbarrier at that address of the cluster's window counts them."""
        by = self.by()
        places = self.wave.locate(by, "shared::cluster", np.array([barrier], np.uint64))
        self.wave.part(Mbarriers).transact(by, places, np.array([count]), completed=True)


@dataclass(eq=False)
class Load(Engine):
    """Into the shared memory of one CTA or several: `data` gives the bytes of all pieces when it completes.

    `targets` are the addresses of the pieces and of the mbarrier in each CTA; each mbarrier counts `bytes` bytes.
    """

    source: Side | None
    inside: Mask
    fill: NDArray[np.uint8]
    targets: list[tuple[Side, int]]
    bytes: int
    reduction: Reduction | None = None
    swizzle: int | None = None
    """Bytes of the swizzle of a tile, None for plain bytes."""
    rounded: str = ""
    """The format to which each value is rounded, if any."""

    def complete(self) -> None:
        """Read the source, write every destination, tell every mbarrier."""
        data = np.tile(self.fill, (len(self.inside), 1))
        if self.source is not None and self.inside.any():
            read = self.get(self.source)
            data[self.inside] = rounded(self.rounded, read) if self.rounded else read
        for target, barrier in self.targets:
            self.put(target, data, self.reduction)
            if self.swizzle is not None:
                self.wave.part(Swizzles).wrote(self.by(), target.space, target.addresses, self.swizzle)
            self.tell(barrier, self.bytes)


def start_load(load: Load) -> None:
    """Put it in flight. Raises mbarrier.uninitialised."""
    by = load.by()
    barriers = np.array([barrier for _, barrier in load.targets], np.uint64)
    load.wave.part(Mbarriers).must_exist(by, load.wave.locate(by, "shared::cluster", barriers))
    load.wave.start(load)


@dataclass(eq=False)
class Reading(Engine):
    """The first half of a store: the source is read, and may be written again afterwards."""

    source: Side
    data: NDArray[np.uint8] = field(init=False)

    def complete(self) -> None:
        """Read the source."""
        self.data = self.get(self.source)


@dataclass(eq=False)
class Store(Engine):
    """The second half of a store: what was read is written to global memory, or combined with what is there."""

    reading: Reading
    target: Side
    reduction: Reduction | None = None

    def complete(self) -> None:
        """Write the destination."""
        self.put(self.target, self.reading.data, self.reduction)


def in_cta(address: int, rank: int) -> int:
    """The same offset in the shared memory of the CTA of that rank."""
    return (address & int(_OFFSET)) | (rank << windows.RANK_SHIFT)


def rank_of(address: int) -> int:
    """The rank of the CTA whose shared memory an address is in."""
    return address >> windows.RANK_SHIFT


def ranks(mask: int) -> list[int]:
    """The CTAs of a multicast mask."""
    return [rank for rank in range(32) if mask >> rank & 1]


def must_have_cluster(wave: Wave, by: By) -> None:
    """Raises simulator.no-cluster where neither the launch nor the PTX asks for clusters."""
    if not wave.launch.clustered:
        fail(NO_CLUSTER, wave, by)
