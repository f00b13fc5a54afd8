"""The machine form: what was selected, block by block, with the packed words, in the order it will execute.

The builder appends to it as it emits LLVM IR; the verifier and the protocol analyses read it. It holds no LLVM object,
so a kernel can be checked, printed and compared without LLVM.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nvbackend.diagnostics import Location
from nvbackend.intrinsics.row import Row
from nvbackend.isel.target import Target


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
    name: str


@dataclass(frozen=True, slots=True)
class Touch:
    """One access of one instruction to a register block; `shape` is the mma's (M, N, K) where it is one."""

    block: RegisterBlock
    access: Access
    shape: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class MachineInstr:
    """One selected instruction, or a pseudo-instruction (row None) that only records accesses.

    `immediates` are compile-time operands by name (wait_group's count, negate and transpose flags, ...); `words` are
    packed words by name whose constant bits are known (a shared-memory descriptor's upper half); `operands` name the
    registers, for print.
    """

    opcode: str
    row: Row | None = None
    operands: Mapping[str, str] = field(default_factory=dict)
    immediates: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[str, int] = field(default_factory=dict)
    touches: tuple[Touch, ...] = ()
    location: Location | None = None


@dataclass
class MachineBlock:
    """A basic block: instructions in order, and the names of the blocks that may follow."""

    name: str
    instructions: list[MachineInstr] = field(default_factory=list)
    successors: list[str] = field(default_factory=list)


@dataclass
class MachineFunction:
    """A kernel after selection. The first block is the entry; `attributes` hold launch facts (threads, cluster)."""

    name: str
    target: Target
    blocks: dict[str, MachineBlock] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)

    @property
    def entry(self) -> MachineBlock:
        """The first block."""
        return next(iter(self.blocks.values()))

    def block(self, name: str) -> MachineBlock:
        """The block called `name`, made on first mention."""
        return self.blocks.setdefault(name, MachineBlock(name))

    def instructions(self) -> Iterator[MachineInstr]:
        """Every instruction, in the order of the text."""
        for block in self.blocks.values():
            yield from block.instructions

    def __str__(self) -> str:
        from nvbackend.isel.print import print_machine

        return print_machine(self)
