"""The machine form: what was selected, block by block, with the packed words, in the order it will execute.

The builder appends to it as it emits LLVM IR; the verifier and the protocol analyses read it. It holds no LLVM object,
so a kernel can be checked, printed and compared without LLVM. Its parts are those of `parts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.machine.parts import (
    Access,
    Branch,
    Crew,
    MachineBlock,
    MachineInstr,
    MemoryObject,
    MemoryTouch,
    MemoryUse,
    Reach,
    RegisterBlock,
    RunTimeValues,
    Touch,
    Update,
)
from nvbackend.isel.machine.print import print_blocks, print_header
from nvbackend.isel.target.target import Target

__all__ = [
    "Access",
    "Branch",
    "Crew",
    "MachineBlock",
    "MachineFunction",
    "MachineInstr",
    "MemoryObject",
    "MemoryTouch",
    "MemoryUse",
    "Reach",
    "RegisterBlock",
    "RunTimeValues",
    "Scope",
    "Touch",
    "Update",
]


@dataclass
class MachineFunction:
    """A kernel after selection. The first block is the entry; `attributes` hold launch facts (threads, cluster).

    The attribute `attached` is there where the function has other instructions than these. `values` answers what
    analyses ask of run-time values, where somebody can. `kept` is what they have found, of a function that is finished
    (`isel.flow.finished`).
    """

    name: str
    target: Target
    blocks: dict[str, MachineBlock] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)
    values: RunTimeValues | None = field(default=None, compare=False, repr=False)
    kept: dict[tuple[bool, object], object] | None = field(default=None, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """What a copy has: not what the builder and the analyses know of it, which ends with them."""
        return self.__dict__ | {"values": None, "kept": None}

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

    def __repr__(self) -> str:
        count = sum(1 for _ in self.instructions())
        return f"<machine form of {self.name} for {self.target}: {len(self.blocks)} blocks, {count} instructions>"

    def __str__(self) -> str:
        return "\n".join([*print_header(self.name, self.target, self.attributes), *print_blocks(self.blocks.values())])
