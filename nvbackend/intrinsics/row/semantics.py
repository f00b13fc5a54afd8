"""What an instruction is to the analyses: its part in the protocols of barriers, groups, proxies and memory.

A row says it (`Row.semantics`), from the same axes that make its spelling, and analyses ask for nothing else: a new
instruction of a known kind needs no edit of theirs. What it does not do is None, or empty.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import field, fields
from functools import cached_property

from nvbackend.diagnostics import record
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType

WARP_SIZE = 32
"""Threads of a warp."""
WARPGROUP_SIZE = 4 * WARP_SIZE
"""Threads of a warpgroup: four warps, of which the first has a rank that is a multiple of four."""


class Scope(enum.IntEnum):
    """A group of threads that agree on something, from the smallest to the largest."""

    THREAD = 0
    WARP = 1
    WARPGROUP = 2
    CTA = 3
    CLUSTER = 4
    GRID = 5


SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GRID, "gl": Scope.GRID, "sys": Scope.GRID}
"""The scopes of memory orders, by how PTX spells them; other grids count as this one."""


BARRIER = "barrier"
"""The operand with the address of the mbarrier that an instruction uses."""


class _Word(enum.Enum):
    """Words whose `repr` is their name."""

    def __repr__(self) -> str:
        return self.name


class MbarrierUse(enum.Flag):
    """What an instruction does with the mbarrier in its operand `barrier`."""

    INIT = enum.auto()
    INVAL = enum.auto()
    ARRIVE = enum.auto()
    EXPECT = enum.auto()
    COMPLETE = enum.auto()  # bytes of an asynchronous copy
    WAIT = enum.auto()  # until the phase has completed
    POLL = enum.auto()  # asks whether it has
    RECOUNT = enum.auto()  # an arrival that changes how many arrivals a phase takes

    __hash__ = object.__hash__  # quick: Flag's own is written in Python


class Proxy(_Word):
    """The path by which memory is accessed (PTX ISA, Memory Consistency Model: proxies)."""

    GENERIC = "generic"
    ASYNC = "async"


class Completion(_Word):
    """How a thread learns that an asynchronous operation is done."""

    MMA_GROUP = "groups of wgmma"
    COPY_GROUP = "groups of cp.async"
    BULK_GROUP = "bulk groups"
    BYTES = "bytes that complete on an mbarrier"
    COMMIT = "an arrival of tcgen05.commit on an mbarrier"
    LOAD_WAIT = "tcgen05.wait::ld"
    STORE_WAIT = "tcgen05.wait::st"
    NOTHING = "nothing: no one can wait for it"

    __hash__ = object.__hash__  # quick: Enum's own is of the name, and written in Python


@dataclass(frozen=True, slots=True)
class ThreadBarrier:
    """A barrier of threads of a `scope`: `arrives`, `waits` or both; `relaxed` orders no memory access."""

    scope: Scope
    arrives: bool = True
    waits: bool = True
    relaxed: bool = False


class FenceOf(_Word):
    """What a fence orders."""

    MEMORY = "this thread's memory accesses"
    INIT = "its mbarrier.init, for the cluster and the async proxy"
    ASYNC_PROXY = "accesses of the generic and the async proxy"
    OTHER_PROXY = "accesses of the generic and another proxy"
    REGISTERS = "registers and shared memory with wgmma"
    BEFORE_SYNC = "tcgen05 operations before what synchronises threads"
    AFTER_SYNC = "tcgen05 operations after what synchronises threads"


@dataclass(frozen=True, slots=True)
class FenceSemantics:
    """A fence; `shared` says whether it orders accesses to shared memory."""

    of: FenceOf
    shared: bool = True


@dataclass(frozen=True, slots=True)
class Matrix:
    """`lines` of a matrix, each of `line` elements of so many `bits`; the operand `stride`, if any, is between them."""

    lines: int
    line: int
    bits: int

    def extent(self, stride: int) -> int:
        """The bytes from the first element to the end of the last."""
        return ((self.lines - 1) * stride + self.line) * self.bits // 8

    @property
    def bytes(self) -> int:
        """The bytes of all elements."""
        return self.lines * self.line * self.bits // 8


Extent = int | str | Matrix | None
"""How much is accessed at an operand: bytes (columns of tensor memory), the operand that counts them, or a matrix."""


@dataclass(frozen=True, slots=True)
class MemoryOperand:
    """Memory that an instruction reads or, if `writes`, changes: at its operand's address, in that register's space.

    An operand of 64 bits is a descriptor of shared memory. `lanes` of a warp give an address each, 0 where their number
    is not known, None where all that execute it give one. `by_each_warp`: all of it, and not a part each.
    """

    name: str
    writes: bool
    extent: Extent = None
    lanes: int | None = None
    by_each_warp: bool = False

    def __repr__(self) -> str:
        parts = [self.name, *(repr(count) for count in (self.extent, self.lanes) if count is not None)]
        return f"{'writes' if self.writes else 'reads'}({', '.join(parts)})"


def reads(name: str, extent: Extent = None, lanes: int | None = None) -> MemoryOperand:
    """The instruction reads at the address in operand `name`."""
    return MemoryOperand(name, False, extent, lanes)


def writes(name: str, extent: Extent = None, lanes: int | None = None) -> MemoryOperand:
    """The instruction writes at the address in operand `name`."""
    return MemoryOperand(name, True, extent, lanes)


@dataclass(frozen=True, slots=True)
class OpaqueFragment:
    """An operand whose registers hold a fragment of a matrix, in an order that only the same family knows.

    `which` of the matrices it is (a, b, c, d), of a product's (M, N, K) and of what elements; the `layout` matters of a
    and b alone.
    """

    name: str
    which: str
    shape: tuple[int, int, int]
    element: ElementType
    layout: str | None = None


class TensorMemory(_Word):
    """What an instruction does with the allocation of tensor memory."""

    ALLOCATE = enum.auto()
    FREE = enum.auto()
    RELINQUISH = enum.auto()


class TensorMapUse(_Word):
    """What an instruction does with a tensor map in memory. A map that is published is changed and released."""

    CHANGE = enum.auto()
    PUBLISH = enum.auto()
    RELEASE = enum.auto()
    ACQUIRE = enum.auto()
    COPY = enum.auto()


class GridUse(_Word):
    """What an instruction does with the grids that are launched before and after this one."""

    WAIT = enum.auto()
    LAUNCH = enum.auto()


class Budget(_Word):
    """How an instruction changes the registers of a thread."""

    RAISE = "inc"
    LOWER = "dec"


_OF_TENSOR_MEMORY = (Completion.COMMIT, Completion.LOAD_WAIT, Completion.STORE_WAIT)


@record
@dataclass(frozen=True)
class Semantics:
    """What an instruction is to the analyses. `repr` shows what differs from an instruction that only computes.

    Of asynchronous operations that complete in one way it `issues` one, `commits` those issued so far to a group,
    `awaits` all groups but `pending`, or `tracks` those issued so far: it arrives on an mbarrier when they are done.
    A thread may go on by it after what others did in the scope that it `acquires` in, and others after what it did in
    the one that it `releases` in; relaxed forms count. `memory` is accessed through `proxy`. `together`: the threads
    that execute a convergent instruction as one, THREAD for any lanes that are there. `multicast`: it concerns the same
    place of several CTAs. `peers`: its address may be that of another CTA although its register is for the own ones;
    `in_peer`: its memory is that of another CTA. `in_cluster`: a kernel that was launched without a cluster stops at it
    with an illegal instruction (H200), and one with a cluster of one CTA does not.
    `cta_group`: the CTAs that share the tensor memory that it works on. `atomic`: it reads and writes in one step.
    `exits`: the thread ends. `unknown`: it is code of another compiler, which is not read.
    `computes`: its first result, of the numbers that its operands' bits are without a sign.
    """

    mbarrier: MbarrierUse | None = None
    barrier: ThreadBarrier | None = None
    fence: FenceSemantics | None = None
    issues: Completion | None = None
    commits: Completion | None = None
    awaits: Completion | None = None
    tracks: Completion | None = None
    acquires: Scope = Scope.THREAD
    releases: Scope = Scope.THREAD
    memory: tuple[MemoryOperand, ...] = ()
    proxy: Proxy = Proxy.GENERIC
    fragments: tuple[OpaqueFragment, ...] = ()
    multiplies: bool = False
    tensor_memory: TensorMemory | None = None
    tensor_map: TensorMapUse | None = None
    cta_group: int | None = None
    grids: GridUse | None = None
    budget: Budget | None = None
    together: Scope = Scope.WARP
    multicast: bool = False
    peers: bool = False
    in_peer: bool = False
    in_cluster: bool = False
    atomic: bool = False
    exits: bool = False
    unknown: bool = False
    computes: Callable[..., int] | None = field(default=None, compare=False)

    @cached_property
    def completion(self) -> Completion | None:
        """What completes the asynchronous operations of which it is a step."""
        return self.issues or self.commits or self.awaits or self.tracks

    @cached_property
    def is_of_tensor_memory(self) -> bool:
        """Whether it is an instruction of tcgen05."""
        fences = self.fence is not None and self.fence.of in (FenceOf.BEFORE_SYNC, FenceOf.AFTER_SYNC)
        return fences or self.tensor_memory is not None or self.completion in _OF_TENSOR_MEMORY

    def arrives_at(self, scope: Scope) -> bool:
        """Whether it arrives at a barrier of threads of this scope."""
        barrier = self.barrier
        return barrier is not None and barrier.arrives and barrier.scope is scope

    def waits_at(self, scope: Scope) -> bool:
        """Whether it waits at a barrier of threads of this scope."""
        barrier = self.barrier
        return barrier is not None and barrier.waits and barrier.scope is scope

    def accesses(self, name: str) -> MemoryOperand | None:
        """How it accesses memory at the address in operand `name`; None if it does not."""
        for use in self.memory:
            if use.name == name:
                return use
        return None

    def said(self) -> Iterator[tuple[str, object]]:
        """What it says, by field name."""
        for part in fields(self):
            value = getattr(self, part.name)
            if part.compare and value != part.default:
                yield part.name, value

    def __repr__(self) -> str:
        return f"Semantics({', '.join(f'{name}={_shown(value)}' for name, value in self.said())})"

    def __hash__(self) -> int:
        return self._hash  # quick, since much is looked up by it

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, part.name) for part in fields(self) if part.compare))


def _shown(value: object) -> str:
    return str(value.name) if isinstance(value, enum.Enum) else repr(value)


NOTHING = Semantics()
"""An instruction that only computes."""
