"""What the machine form is made of: instructions with what they touch, and basic blocks with how they branch."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.brief import short_repr
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import NOTHING, Scope, Semantics
from nvbackend.isel.machine.pseudo import PSEUDO


class Access(enum.Enum):
    """What an instruction does to a block of registers that asynchronous instructions also touch."""

    READ = "read"  # the value is used by ordinary code
    WRITE = "write"  # ordinary code put a value there
    ACCUMULATE = "accumulate"  # D of an asynchronous mma: read and written in flight
    MULTIPLY = "multiply"  # A of an asynchronous mma: read in flight
    DRAIN = "drain"  # a wait hands the finished value back


@dataclass(frozen=True, slots=True)
class RegisterBlock:
    """Registers with an identity: an accumulator, or a fragment of A. `id` is unique in the function."""

    id: int
    name: str = field(hash=False)


@dataclass(frozen=True, slots=True)
class Touch:
    """One access of one instruction to a register block; `shape` is the mma's (M, N, K) where it is one."""

    block: RegisterBlock
    access: Access
    shape: tuple[int, int, int] | None = None


class MemoryUse(enum.Enum):
    """What an instruction does to memory, and through which proxy (PTX ISA, Memory Consistency Model: proxies)."""

    READ = "read"  # by ordinary code: generic proxy, done when the instruction is
    WRITE = "write"
    ASYNC_READ = "async-read"  # by an mma or a bulk copy: async proxy, continues after the issue
    ASYNC_WRITE = "async-write"
    SYNCHRONIZE = "synchronize"  # an mbarrier, operated on as one
    DECLARE = "declare"  # nothing is accessed: an address is computed from it, or it is set up

    __hash__ = object.__hash__  # quick: Enum's own is of the name, and written in Python


@dataclass(frozen=True, slots=True)
class MemoryObject:
    """Memory with an identity: an allocation in shared or tensor memory. `id` is unique in the function.

    `element_bytes` is the size of one of its equal parts (an mbarrier, a stage), `bytes` that of the whole; tensor
    memory counts in columns instead of bytes. Another CTA's memory is the `twin` of this CTA's, by its id.
    """

    id: int
    name: str
    space: str
    bytes: int
    element_bytes: int
    twin: int | None = None

    def __hash__(self) -> int:
        return self.id

    def called(self, kind: str) -> str:
        """What a diagnostic calls it: its kind and name, or the kind alone where the name only repeats that."""
        return kind if self.name in kind.split() else f"{kind} {self.name}"


@dataclass(frozen=True, slots=True)
class MemoryTouch:
    """One access of one instruction to an allocation.

    The access starts at `offset` plus the value of `symbol` (names, defining blocks and factors, by
    `isel.flow.memory_uses`): equal symbols are equal run-time values while their definition is not executed again, and
    "" is empty. `bytes` is the extent, None where it is not known. `operand` is the row's operand that holds the
    address.
    """

    object: MemoryObject
    use: MemoryUse = field(hash=False)
    operand: str = ""
    offset: int = 0
    symbol: str = ""
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """How a block with two successors chooses: all threads of one `uniform` scope go the same way.

    `one_thread`: at most one thread of a warp takes the first successor. `fixed`: a thread goes the same way each time
    that it comes here. `condition` is the text for people.
    """

    uniform: Scope
    one_thread: bool = False
    fixed: bool = False
    condition: str = ""
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """Whose mbarriers an instruction reaches, each time that its block runs; all by the rank of the CTA it runs in.

    `threads` are how many execute it, its guard included. `targets` are the CTAs of the cluster whose mbarrier they may
    reach, a bit each, `certain` those that they do reach where any of them executes it, and `counts` how many of them
    reach that of each CTA. `masks` are those of a multicast, unchanged. None means unknown.
    """

    threads: tuple[int | None, ...]
    targets: tuple[int | None, ...]
    certain: tuple[int, ...]
    counts: tuple[tuple[int, ...] | None, ...]
    masks: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class MachineInstr:
    """One selected instruction, or a pseudo-instruction (row None) that only records accesses.

    `immediates` are compile-time operands by name (wait_group's count, negate and transpose flags, ...); `words` are
    packed words by name whose constant bits are known (a shared-memory descriptor's upper half); `operands` name the
    registers, for print, `registers` counts them, where that is known; `touches` are the accesses to registers that
    asynchronous instructions use as well, `memory` those to allocations. `facts` are numbers known at build time that
    are not operands, by the names of `isel.machine.facts`; `sources` the mutable variables that an operand is computed
    from, where all of them are known. `reach` is there where the mbarrier may be that of another CTA of a cluster.
    `semantics` are those of the row, or of the pseudo-instruction, where no others are given.
    """

    opcode: str
    row: Row | None = None
    operands: Mapping[str, str] = field(default_factory=dict)
    registers: Mapping[str, int] = field(default_factory=dict)
    immediates: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[str, int] = field(default_factory=dict)
    touches: tuple[Touch, ...] = ()
    memory: tuple[MemoryTouch, ...] = ()
    facts: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, frozenset[str]] = field(default_factory=dict)
    reach: Reach | None = None
    location: Location | None = None
    semantics: Semantics = field(default=NOTHING, compare=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if self.semantics is NOTHING:
            said = PSEUDO.get(self.opcode, NOTHING) if self.row is None else self.row.semantics
            object.__setattr__(self, "semantics", said)


@dataclass(frozen=True, slots=True)
class Crew:
    """Threads of the CTA that run a block together, a bit each.

    Whenever any thread runs the block `anchor`, each of them comes to this one, before the end of the loop round that
    both are in. Where they are `elected`, each bit means its warp, of which some one lane comes.
    """

    bits: int
    elected: bool
    anchor: str


class RunTimeValues(Protocol):
    """What is known of run-time values, by their names in symbols and operands."""

    def numbers(self, name: str) -> Sequence[int] | None:
        """The value in each thread of the CTA; None where it is not known."""

    def counted(self, name: str) -> tuple[int, int] | None:
        """The values in the first and in the last round of the loop that it counts; None where that is not known."""

    def is_same(self, name: str) -> bool:
        """Whether all threads that run its block together certainly have the same value."""

    def ranks(self, name: str) -> Sequence[int] | None:
        """The value in each CTA of the cluster, where its threads all have the same; None where it is not known."""

    def scope(self, name: str) -> Scope:
        """The largest group of threads over which it is the same as far as anything shows, of mbarriers' addresses."""


class Update(enum.Enum):
    """How a block changes a mutable variable."""

    COUNT = "count"  # by a constant
    FLIP = "flip"  # between 0 and 1
    SET = "set"  # to any other value


@dataclass
class MachineBlock:
    """A basic block: instructions in order, the names of the blocks that may follow, and how it chooses among two.

    `updates` are the mutable variables that it gives another value, `constants` those of them that it leaves at a known
    one. `sides` are, where known, the threads of the CTA that certainly take the first of its two successors, and those
    that certainly take the other, a bit each; `ranks` are the same of the CTAs of the cluster. `crew` are the threads
    that certainly run it together, where known.
    """

    name: str
    instructions: list[MachineInstr] = field(default_factory=list)
    successors: list[str] = field(default_factory=list)
    branch: Branch | None = None
    updates: dict[str, Update] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    sides: tuple[int, int] | None = None
    ranks: tuple[int, int] = (0, 0)
    crew: Crew | None = None
