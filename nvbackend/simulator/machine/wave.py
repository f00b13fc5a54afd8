"""What runs together: the CTAs of some clusters, their registers, memory, and operations in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import Addresses, Bits, By, Mask, Observer, Pending, Site, Threads
from nvbackend.simulator.machine.lanes import WARP, WARPGROUP, Lanes
from nvbackend.simulator.memory import Memory

_Part = TypeVar("_Part")
_SHOWN = 4
"""CTAs that messages name."""
Dim = tuple[int, int, int]
LIMIT = 10**8
"""The usual limit of instructions that groups of threads of a wave execute: 10 to 60 minutes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What some threads wait for, for the report of a deadlock. `text` names no CTA: equal causes are reported once."""

    threads: Threads
    text: str
    notes: tuple[tuple[str, Location | None], ...] = ()


@dataclass(eq=False)
class Waiting:
    """Lanes that cannot go on. `ready()` says for each of them whether it can now; `reason()` is what they wait for,
    such as `barrier 1 of CTA 0: 32 of 128 threads have arrived`; `causes()` tell more, where there is more to tell."""

    lanes: Lanes
    ready: Callable[[], Mask | bool]
    reason: Callable[[], str]
    again: bool = False
    give_up: Callable[[], None] | None = None
    """Makes the lanes go on all the same, where the instruction may wait for a limited time only."""
    causes: Callable[[], list[Cause]] | None = None


_SMALLEST_PART = 8
"""Bytes of a part that has an index of its own in messages: an mbarrier, a stage, and no element."""


class Shared(NamedTuple):
    """A variable in shared memory: its name, the offset of its first byte, and its bytes, 0 for an open extent."""

    name: str
    offset: int
    size: int


class Named(NamedTuple):
    """What a program calls bytes of a variable in shared memory, an array of parts of `each` bytes."""

    variable: str
    first: int
    size: int
    each: int
    name: str

    def at(self, byte: int) -> str:
        """What messages call a byte of the variable: `full[1]`, `tile[0]+16`, `row+4`."""
        index, rest = divmod(byte - self.first, self.each or self.size)
        if self.size <= self.each or self.each < _SMALLEST_PART:
            index, rest = -1, byte - self.first
        return f"{self.name}{f'[{index}]' if index >= 0 else ''}{f'+{rest}' if rest else ''}"


Step = Callable[["Wave", Lanes], Waiting | None]
Reader = Callable[["Wave", Lanes], Bits]
Writer = Callable[["Wave", Lanes, Bits], None]
"""Compiled once: what an instruction does, and how its operands are read and written."""


class Poll(NamedTuple):
    """A loop that reads a word until it is one certain number.

    The slot of the predicate that says whether it is, and which value of that makes a thread look again.
    """

    predicate: int
    again: bool


Polls = Callable[[], Mapping[Site, Poll]]


@dataclass(frozen=True)
class Launch:
    """What one launch asks for: the kernel, its extents, its arguments."""

    kernel: str
    target: str
    grid: Dim
    block: Dim
    cluster: Dim
    dynamic_shared: int
    shared_bytes: int
    """Static and dynamic shared memory of a CTA."""
    names: tuple[str, ...]
    parameters: tuple[bytes, ...]
    """The kernel's parameters: their names in the PTX, and their bytes."""
    seed: int = 0
    registers: int = 0
    """Registers that ptxas may give a thread, by the directives of the kernel."""
    limit: int = LIMIT
    """Instructions that a wave may execute, as `Wave.steps` counts them."""
    places: Sequence[tuple[str, int, int, int, str]] = ()
    """What the program calls its shared memory."""
    clustered: bool = False
    """Whether the launch or the PTX asks for clusters, also for some of one CTA."""
    started: int | None = None
    """How many clusters start before others are taken over from the launch, where the kernel asks for these."""

    @property
    def block_threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def cluster_size(self) -> int:
        """CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    @property
    def clusters(self) -> Dim:
        """The grid in clusters."""
        x, y, z = (extent // each for extent, each in zip(self.grid, self.cluster, strict=True))
        return x, y, z


@dataclass(slots=True)
class NotStarted:
    """The clusters of a launch from `first` on, up to `end`: they start later, or are taken over by who asks."""

    first: int
    end: int

    def take(self) -> int | None:
        """The next cluster, which does not start any more; None where none is left."""
        if self.first == self.end:
            return None
        self.first += 1
        return self.first - 1


class Wave:
    """The CTAs that run together.

    CTAs are numbered from 0 in the wave; those of one cluster follow one another in the order of their rank. Each has
    `cta_threads` places for threads, a whole number of warps, of which the first `block_threads` exist.
    """

    def __init__(
        self,
        launch: Launch,
        clusters: range,
        memory: Memory,
        observers: list[Observer],
        not_started: NotStarted,
        variables: tuple[Shared, ...] = (),
        sites: Callable[[], Iterable[Site]] = tuple,
    ) -> None:
        self.launch = launch
        self.not_started = not_started
        self.clusters = clusters
        self.memory = memory
        self.observers = observers
        self.variables = variables
        """In shared memory, by their addresses."""
        self.sites = sites
        """The instructions of the program, in the order of its text."""
        self.cluster_size = launch.cluster_size
        self.cta_count = len(clusters) * self.cluster_size
        self.block_threads = launch.block_threads
        self.cta_threads = -(-self.block_threads // WARP) * WARP
        self.size = self.cta_count * self.cta_threads
        """Places for threads: the length of a register's array."""
        places = np.arange(self.size)
        self.exists: Mask = places % self.cta_threads < self.block_threads
        self.alive: Mask = self.exists.copy()
        """Threads that have not ended."""
        self.alive_count = int(self.alive.sum())
        self.registers: list[Bits] = []
        self.polls: Polls = dict
        """Where the program reads words until they are one certain number."""
        self.pending: list[Pending] = []
        self.stack: NDArray[np.int64] = np.zeros(self.size, np.int64)
        """Bytes of local memory that the callers of each thread's function use."""
        self.steps = 0
        """How many instructions have run, of any number of threads: the clock."""
        self._parts: dict[Any, Any] = {}

    def zeros(self, dtype: Any, width: int = 1) -> Bits:
        """A register of zeros."""
        return np.zeros(self.size if width == 1 else (self.size, width), dtype)

    def part(self, kind: Callable[[Wave], _Part]) -> _Part:
        """The wave's one object of a class, `kind(wave)`, made at its first use."""
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind(self)
        return cast("_Part", found)

    def made(self, kind: Callable[[Wave], _Part]) -> _Part | None:
        """The same object, None before its first use."""
        return cast("_Part | None", self._parts.get(kind))

    def read(self, by: By, space: str, addresses: Addresses, size: int) -> NDArray[np.uint8]:
        """The bytes at each address: shape (..., size) for addresses of shape (...).

        A size that is not a power of two is read byte by byte; then `by.threads` is one thread.
        """
        if size & size - 1:
            each: Addresses = addresses[..., None] + np.arange(size).astype(np.uint64)
            return self.read(by, space, each, 1)[..., 0]
        words = self.memory.load(by, space, addresses.reshape(-1), size)
        return words.view(np.uint8).reshape(*addresses.shape, size)

    def write(self, by: By, space: str, addresses: Addresses, data: NDArray[np.uint8]) -> None:
        """Set the bytes at each address: data of shape (..., size). Of equal addresses the last one stays."""
        size = data.shape[-1]
        if not addresses.size:
            return
        if size & size - 1:
            each: Addresses = addresses[..., None] + np.arange(size).astype(np.uint64)
            self.write(by, space, each, data[..., None])
            return
        flat = np.ascontiguousarray(data).reshape(-1, size)
        words = flat.view(f"u{min(size, 8)}")
        self.memory.store(by, space, addresses.reshape(-1), words[:, 0] if size <= 8 else words)

    def locate(self, by: By, space: str, addresses: Addresses) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of addresses in shared memory, or generic ones of it: the CTA in the wave and the offset in its memory."""
        located = self.memory.locate(by, space, addresses)
        return located.owners, located.offsets.view(np.int64)

    def start(self, operation: Pending) -> None:
        """Put an operation in flight."""
        self.pending.append(operation)
        for observer in self.observers:
            observer.issued(operation)

    def meet(self, by: By) -> None:
        """Tell that the lanes of warps have come together."""
        for observer in self.observers:
            observer.fence(by, "warp")

    def missing(self, lanes: Lanes, members: NDArray[np.uint32] | None = None) -> Lanes | None:
        """The lanes whose warp is not here with all of `members` that have not ended, or None. `members` has a bit a
        lane, for each of the lanes; None is all lanes of the warp."""
        if lanes.full_warps:
            return None
        absent: Mask = self.alive.reshape(-1, WARP)[lanes.warps] & ~lanes.present
        if not absent.any():
            return None
        if members is None:
            wrong = np.asarray(absent.any(axis=1))[lanes.slots[0]]
        else:
            bits = (absent.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
            wrong = (bits[lanes.slots[0]] & members) != 0
        return lanes.where(wrong) if wrong.any() else None

    def cta(self, threads: Threads) -> NDArray[np.int64]:
        """The CTA in the wave of each thread."""
        return threads // self.cta_threads

    def warpgroup(self, threads: Threads) -> NDArray[np.int64]:
        """The warpgroup of each thread, four warps of one CTA, numbered through the wave."""
        each = -(-self.cta_threads // WARPGROUP)
        return self.cta(threads) * each + threads % self.cta_threads // WARPGROUP

    def rank(self, threads: Threads) -> NDArray[np.int64]:
        """The rank in its cluster of the CTA of each thread."""
        return self.cta(threads) % self.cluster_size

    def cta_id(self, cta: int) -> Dim:
        """`%ctaid` of a CTA of the wave."""
        first = self.first_cta_id(self.clusters[cta // self.cluster_size])
        inner = _coordinates(cta % self.cluster_size, self.launch.cluster)
        x, y, z = (a + b for a, b in zip(first, inner, strict=True))
        return x, y, z

    def first_cta_id(self, cluster: int) -> Dim:
        """`%ctaid` of the first CTA of a cluster of the grid."""
        place = _coordinates(cluster, self.launch.clusters)
        x, y, z = (a * each for a, each in zip(place, self.launch.cluster, strict=True))
        return x, y, z

    def shared_name(self, offset: int) -> str:
        """What messages call a place in shared memory: `full[1] (shared address 0x408)`; by the PTX `full+8`."""
        inside = [
            one for one in self.variables if one.offset <= offset and (offset < one.offset + one.size or not one.size)
        ]
        address = f"shared address {offset:#x}"
        if not inside:
            return address
        variable, start = inside[-1].name, offset - inside[-1].offset
        for one in (Named(*each) for each in self.launch.places):
            if one.variable == variable and one.first <= start < one.first + one.size:
                return f"{one.at(start)} ({address})"
        return f"{inside[-1].name}{f'+{start}' if start else ''} ({address})"

    def threads_name(self, threads: Threads) -> str:
        """What messages call some threads: the first of them, and how many others there are in which CTAs."""
        first = self.thread_name(int(threads[0]))
        if len(threads) == 1:
            return first
        ctas = [_shown(self.cta_id(cta)) for cta in np.unique(self.cta(threads)).tolist()]
        where = (
            ""
            if len(ctas) == 1
            else f" of {len(ctas)} CTAs ({', '.join(ctas[:_SHOWN])}{', ...'[: 5 * (len(ctas) > _SHOWN)]})"
        )
        return f"{first} and {len(threads) - 1} more{where}"

    def thread_name(self, thread: int) -> str:
        """What messages call a thread."""
        tid = _coordinates(thread % self.cta_threads, self.launch.block)
        return f"thread {_shown(tid)} of CTA {_shown(self.cta_id(thread // self.cta_threads))}"


def _coordinates(place: int, extents: Dim) -> Dim:
    x, y, _ = extents
    return place % x, place // x % y, place // (x * y)


def _shown(place: Dim) -> str:
    """(3) rather than (3, 0, 0)."""
    return str(place) if any(place[1:]) else str(place[0])
