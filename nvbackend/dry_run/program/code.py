"""Compiled code: blocks of closures and of recorded instructions, over numbered registers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from llvmlite import ir

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.anchors import Anchor
from nvbackend.dry_run.facts import Facts, facts_of
from nvbackend.dry_run.program.uses import Uses
from nvbackend.dry_run.values.arithmetic import Operation
from nvbackend.dry_run.when import Counter
from nvbackend.isel.machine.function import MachineInstr, MemoryUse

MOST_BUFFERS = 12
"""A ring has at most so many buffers."""
SELF = 0
"""The register that holds who executes: the fiber."""


@dataclass(slots=True)
class Recorded:
    """A recorded instruction: the registers of its operands by name, of its outputs, and of its guard."""

    instr: MachineInstr
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    guard: int | None
    together: bool
    """Whether the warps of a warpgroup execute it as one."""
    own: Any = None
    """What executes it, where it is an instruction of threads and not of a protocol."""
    swaps: bool = False
    """Whether it is an atomic that leaves nothing of what was there."""
    decides: bool = False
    """Whether it is an atomic by whose result something is decided."""
    changes: bool = False
    """Whether it is a store of a sum of what is loaded from the same place."""
    meets: bool = False
    """Whether the lanes of its warp reconverge for it."""
    writes: bool = False
    """Whether it may change numbers in shared memory."""
    word: int | None = None
    """The register of the address, where it loads from global memory what the kernel leaves alone."""
    _facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """What all of its steps have in common."""
        if self._facts is None:
            self._facts = facts_of(self.instr)
        return self._facts


@dataclass(slots=True)
class Part:
    """Closures, and the recorded instruction after them."""

    operations: list[Operation]
    recorded: Recorded | None


@dataclass(slots=True)
class CodeBlock:
    """A block: its parts, and how it ends: the register of the condition, and the blocks that follow by number."""

    name: str
    parts: list[Part] = field(default_factory=list)
    condition: int | None = None
    targets: tuple[int, ...] = ()
    cases: Mapping[int, int] | None = None
    """Of a switch: the target of each number; the first of `targets` is that of all others."""
    meeting: int | None = None
    """Where lanes that diverge at its end reconverge; None where they do not."""
    sets: bool = False
    """Whether it sets a variable on which control depends."""
    phis: Mapping[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By the block before: which register each phi's register takes its value from."""
    length: int = 1
    """What it counts for in the budget: one more than its operations."""


@dataclass(slots=True)
class LoopOf:
    """A loop. Its rounds are counted for messages, and limited where their number depends on data."""

    header: int
    blocks: frozenset[int]
    counter: Counter
    before: int | None
    """The nearest block on every way to it; None where that is not known."""


@dataclass(slots=True)
class Program:
    """Blocks by number, the first is the entry; `registers` are the values at the start, `variables` those that merge.

    Registers 1 to `variables` are variables; `scalars` the registers of the parameters, by name.
    """

    blocks: list[CodeBlock]
    registers: list[Any]
    variables: int
    scalars: Mapping[str, int]
    loops: list[LoopOf]
    around: list[tuple[int, ...]]
    """The loops around each block, outermost first."""
    shared: range
    special: Mapping[int, Any]
    """The registers that a warp has from its start on, by what gives their values."""
    addresses: list[int]
    """The registers that hold addresses of the own CTA's shared memory at the start."""
    places: Mapping[str, int]
    """The offset of each variable in shared memory, by its name."""
    computed: Mapping[ir.Value, Anchor]
    """The recorded instructions that give values, by these."""
    uses: Uses
    slots: Mapping[ir.Value, int]
    """The register of each LLVM value that is computed."""
    formats: Mapping[str, str]
    """The formats of the parameters that are floats, by name."""
    opaque: bool
    """Whether it contains foreign code, about which nothing is known."""

    def buffers(self) -> list[int]:
        """Of each loop, the buffers of the largest ring that it uses itself, not a loop inside of it; 0 for none."""
        found = [0] * len(self.loops)
        for block, around in zip(self.blocks, self.around, strict=True):
            if around:
                recorded = (part.recorded.instr for part in block.parts if part.recorded is not None)
                found[around[-1]] = max(found[around[-1]], buffers_of(recorded))
        return found


def buffers_of(instructions: Iterable[MachineInstr]) -> int:
    """The mbarriers of the largest array that is used: as many as a ring has buffers."""
    sizes = [
        touch.object.bytes // touch.object.element_bytes
        for instr in instructions
        if instr.semantics.mbarrier is not None
        for touch in instr.memory
        if touch.use is MemoryUse.SYNCHRONIZE
    ]
    return max((one for one in sizes if one <= MOST_BUFFERS), default=0)
