"""The machine form: what was selected, block by block, with the packed words, in the order it will execute.

The builder appends to it as it emits LLVM IR; the verifier and the protocol analyses read it. It holds no LLVM object,
so a kernel can be checked, printed and compared without LLVM. As text:

    kernel NAME
      target sm_90a
      ptx 9.0
      ATTRIBUTE VALUE
    BLOCK -> SUCCESSOR, ...
      SPELLING operand=%register, immediate=1 [word 0x4000004000010000]  ; word: field value, ...; read acc.1

A line is an instruction: its PTX spelling (the opcode where it is a pseudo-instruction), operands in the order of its
row, immediates, packed words. The comment decodes each word and lists what happens to which register block, and to
which allocation: `write tile.2[1024 + %i*4096, 16 bytes]`. Both are printed with their number, since names may repeat.
LLVM's quotes around the names of values are left out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from nvbackend.diagnostics import DiagnosticError, Location, record
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import NOTHING, Completion, Scope, Semantics
from nvbackend.intrinsics.words.smem_descriptor import SmemDescriptor
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor, Tcgen05SmemDescriptor
from nvbackend.isel.machine.agreement import Formula
from nvbackend.isel.machine.assertions import Assertion
from nvbackend.isel.machine.pseudo import PSEUDO
from nvbackend.isel.target.target import Target, dotted

if TYPE_CHECKING:
    from nvbackend.intrinsics.words.tcgen05_control import Tcgen05Collector, Tcgen05Ctrl

TMEM = "tmem"
"""The space of a memory object in tensor memory; its `bytes` are columns."""


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
    """One access of one instruction to a register block; `shape` is an mma's (M, N, K), else None."""

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
    memory counts in columns instead of bytes. Another CTA's memory is the `twin` of this CTA's, by its id. `start` is
    the variable of LLVM that it lies in and its first byte there, where that is known.
    """

    id: int
    name: str
    space: str
    bytes: int
    element_bytes: int
    twin: int | None = None
    start: tuple[str, int] | None = None

    def __hash__(self) -> int:
        return self.id

    @property
    def called(self) -> str:
        """What a diagnostic calls it: shared memory with its name, where that says more."""
        return "shared memory" if self.name in ("shared", "memory") else f"shared memory {self.name}"


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

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Branch:
    """How a block with two successors chooses: all threads of one `uniform` scope go the same way.

    `one_thread`: at most one thread of a warp takes the first successor. `fixed`: a thread goes the same way each time
    that it comes here. `condition` is the text for people, `formula` says with which other branches it agrees.
    """

    uniform: Scope
    one_thread: bool = False
    fixed: bool = False
    condition: str = ""
    location: Location | None = None
    formula: Formula | None = None


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


@record
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


@cache
def _fill() -> Callable[..., None]:
    """What fills an instruction, without a look at what is given."""
    fill: Callable[..., None] = MachineInstr.__init__.__wrapped__  # type: ignore[attr-defined]
    return fill


def emitted(opcode: str, row: Row | None, **fields: Any) -> MachineInstr:
    """An instruction that this package makes: what it is made of is not looked at."""
    instr = object.__new__(MachineInstr)
    _fill()(instr, opcode, row, **fields)
    return instr


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

    def array(self, name: str) -> str | None:
        """The parameter to which an address that is an operand points; None where that is not known."""


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
    that certainly run it together, where known. `plain` are accesses of global memory that LLVM may move, each with the
    instruction after which it was written, None at the start.
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
    plain: list[tuple[MachineInstr | None, MachineInstr]] = field(default_factory=list)

    __repr__ = short_repr


Decoded: TypeAlias = "SmemDescriptor | Tcgen05SmemDescriptor | InstructionDescriptor | Tcgen05Ctrl | Tcgen05Collector"

INSTRUCTION_DESCRIPTOR = "idesc"
"""The name of the instruction descriptor among the words of a tcgen05.mma."""

_REMEMBERED = 1024
"""So many words of each kind are remembered with what they say: those of a kernel come again and again."""
instruction_descriptor = lru_cache(maxsize=_REMEMBERED)(InstructionDescriptor.decode)
_shared_descriptor = lru_cache(maxsize=_REMEMBERED)(SmemDescriptor.decode)
_shared_descriptor_5 = lru_cache(maxsize=_REMEMBERED)(Tcgen05SmemDescriptor.decode)
_DESCRIPTORS: dict[Completion | None, Callable[[int], Decoded]] = {
    Completion.MMA_GROUP: _shared_descriptor,
    Completion.COMMIT: _shared_descriptor_5,
}
"""What decodes a descriptor of shared memory, by how the operation that reads there completes."""


@cache
def words_of_tcgen05() -> dict[str, Callable[[int], Any]]:
    """What decodes each word of a tcgen05.mma whose meaning is the same in all of them, by its name."""
    from nvbackend.intrinsics.words.tcgen05_control import COLLECTOR, CONTROL, Tcgen05Collector, Tcgen05Ctrl

    remembered = lru_cache(maxsize=_REMEMBERED)
    return {CONTROL: remembered(Tcgen05Ctrl.decode), COLLECTOR: remembered(Tcgen05Collector.decode)}


def decoder(instr: MachineInstr, word: str) -> Callable[[int], Decoded] | None:
    """What decodes the packed word called `word` of `instr`, and raises on bits without meaning; None: none does."""
    said = instr.semantics
    if instr.row is None or said.issues not in _DESCRIPTORS:
        return None
    if said.accesses(word) is not None:
        return _DESCRIPTORS[said.issues]
    if said.issues is not Completion.COMMIT or not said.multiplies:
        return None
    if word == INSTRUCTION_DESCRIPTOR:
        return partial(instruction_descriptor, kind=str(instr.row.axes["kind"]))
    return words_of_tcgen05().get(word)


def print_header(name: str, target: Target, attributes: Mapping[str, object]) -> Iterator[str]:
    """The lines above the blocks."""
    yield f"kernel {name}"
    yield f"  target {target}"
    yield f"  ptx {dotted(target.ptx_version)}"
    yield from (f"  {attribute} {value}" for attribute, value in sorted(attributes.items()))


def print_blocks(blocks: Iterable[MachineBlock]) -> Iterator[str]:
    """The lines of the blocks in order. Places in the user's program are left out."""
    for block in blocks:
        yield block.name + (f" -> {', '.join(block.successors)}" if block.successors else "")
        yield from (f"  {print_instr(instr)}" for instr in block.instructions)


def print_instr(instr: MachineInstr) -> str:
    """One instruction as a line."""
    spelling = instr.opcode if instr.row is None else instr.row.ptx
    operands = ", ".join(_operands(instr))
    words = ", ".join(f"{name} {word:#018x}" for name, word in instr.words.items())
    comment = "; ".join(_comments(instr))
    return spelling + f" {operands}" * bool(operands) + f" [{words}]" * bool(words) + f"  ; {comment}" * bool(comment)


def _operands(instr: MachineInstr) -> Iterator[str]:
    order = [] if instr.row is None else [operand.name for operand in instr.row.operands]
    values = {**instr.operands, **{name: str(value) for name, value in instr.immediates.items()}}
    for name in [*order, *(name for name in values if name not in order)]:
        if name in values:
            yield f"{name}=" + values[name].replace('"', "")


def _comments(instr: MachineInstr) -> Iterator[str]:
    for name, word in instr.words.items():
        decode = decoder(instr, name)
        if decode is not None:
            try:
                yield f"{name}: {fields_of(decode(word))}"
            except DiagnosticError as error:
                yield f"{name}: {', '.join(fault.rule_id for fault in error.diagnostics)}"
    yield from (_touch(touch) for touch in instr.touches)
    yield from (_memory(touch) for touch in instr.memory)


def fields_of(decoded: Decoded) -> str:
    """The fields of a packed word as the machine form prints them."""
    parts = []
    for member in fields(decoded):
        value = getattr(decoded, member.name)
        parts.append(f"{member.name} {value.name if isinstance(value, enum.Enum) else value}")
    return ", ".join(parts)


def _touch(touch: Touch) -> str:
    shape = "" if touch.shape is None else " m{}n{}k{}".format(*touch.shape)
    return f"{touch.access.value} {touch.block.name}.{touch.block.id}{shape}"


def _memory(touch: MemoryTouch) -> str:
    offset = "" if touch.offset == 0 and touch.symbol else str(touch.offset)
    place = " + ".join(filter(None, (offset, touch.symbol)))
    unit = "columns" if touch.object.space == TMEM else "bytes"
    extent = "" if touch.bytes is None else f", {touch.bytes} {unit}"
    return f"{touch.use.value} {touch.object.name}.{touch.object.id}[{place}{extent}]"


@record
@dataclass
class MachineFunction:
    """A kernel after selection. The first block is the entry; `attributes` hold launch facts (threads, cluster).

    The attribute `attached` is there where the function has other instructions than these. `values` answers
    questions about run-time values, if the builder can. `assertions` are the places where it ends its launch itself, by
    the numbers that it records. `kept` caches results of analyses of a finished function
    (`isel.flow.finished`).
    """

    name: str
    target: Target
    blocks: dict[str, MachineBlock] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)
    values: RunTimeValues | None = field(default=None, compare=False)
    assertions: list[Assertion] = field(default_factory=list, compare=False)
    kept: dict[tuple[bool, object], object] | None = field(default=None, init=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        """What a copy has: not what the builder and the analyses know of it, which ends with them."""
        return self.__dict__ | {"values": None, "kept": None}

    def forget(self) -> None:
        """End what the builder and the analyses know of it: nothing will be asked any more."""
        self.values = self.kept = None

    @property
    def entry(self) -> MachineBlock:
        """The first block."""
        return next(iter(self.blocks.values()))

    def block(self, name: str) -> MachineBlock:
        """The block called `name`, made on first mention."""
        block = self.blocks.get(name)
        if block is None:
            block = self.blocks[name] = MachineBlock(name)
        return block

    def instructions(self) -> Iterator[MachineInstr]:
        """Every instruction, in the order of the text."""
        for block in self.blocks.values():
            yield from block.instructions

    def __repr__(self) -> str:
        count = sum(1 for _ in self.instructions())
        return f"<machine form of {self.name} for {self.target}: {len(self.blocks)} blocks, {count} instructions>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        return "\n".join([*print_header(self.name, self.target, self.attributes), *print_blocks(self.blocks.values())])
