"""The core of an attached builder: it emits where its owner's IRBuilder is, and remembers the places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from llvmlite import ir

from nvbackend.builder.attached.debug_places import place_of_node
from nvbackend.builder.attached.owned_code import FollowingBuilder
from nvbackend.builder.core.core import NO_VALUES, Core
from nvbackend.builder.core.memory import Address, Memory
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Value
from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.location import stated_places
from nvbackend.dry_run.successors import successors_of
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.machine.function import MachineBlock, MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.signature import LaunchBounds, Parameter

Key = TypeVar("Key", int, str)
NOWHERE = "unknown"
"""The block at which paths end whose continuation is not known. No kernel ends there."""


@dataclass(frozen=True)
class Verified:
    """What a function was when it was verified, and what came of it."""

    text: str
    machine: MachineFunction
    warnings: tuple[Diagnostic, ...]
    unknown: tuple[str, ...]
    seconds: float


class Owned(Protocol):
    """What the modules of this room ask of an attached builder."""

    name: str
    function: ir.Function
    threads: int
    cluster_size: int
    target: Target
    memory: Memory
    machine: MachineFunction

    @property
    def core(self) -> AttachedCore:
        """What it emits with."""

    def value(self, value: ir.Value, element: ElementType) -> Value:
        """A value of the owner's."""

    def global_address(self, value: ir.Value, element: ElementType, align: int, *, const: bool) -> Address:
        """An address of the owner's."""


class AttachedCore(Core):
    """The core of a function that has an owner: it emits at the position of the owner's IRBuilder."""

    def __init__(self, builder: ir.IRBuilder, target: Target, bounds: LaunchBounds, *, in_asm: bool) -> None:
        function = builder.function
        super().__init__(function.name, target, function, bounds=bounds, cached_storage=False)
        self.in_asm = in_asm
        self.llvm = self.following = FollowingBuilder(builder, super().check_live)
        self.after: dict[int, ir.Instruction | None] = {}
        """The LLVM instruction that each of the machine form follows in its block, by identity."""
        self.knows_threads = False
        """Whether the builder was attached where the function begins."""
        self.parameters: tuple[Parameter, ...] = ()
        self.verified: Verified | None = None
        """What the function was when it was verified last."""
        self._latest: dict[str, ir.Instruction | None] = {}
        """The instruction before the IRBuilder's position when something was last recorded, by block."""

    def check_live(self) -> None:
        """As for any function; which threads reach a block of the owner's is unknown."""
        super().check_live()
        if self.llvm.block not in self.homes:
            self.execution.forget()

    def record(self, instruction: MachineInstr, registers: Mapping[str, Sequence[ir.Value | int]] = NO_VALUES) -> None:
        """As for any function. Raises attach.order and attach.block."""
        self._check_order()
        super().record(instruction, registers)
        place = self.llvm._anchor
        self.after[id(instruction)] = self.llvm.block.instructions[place - 1] if place else None

    def here(self, *, callers: bool = True) -> Location | None:
        """The line of `k.location`, else of the owner's `debug_metadata`, else that of Python."""
        stated = None if stated_places() else place_of_node(self.llvm.debug_metadata)
        return stated or super().here(callers=callers)

    def link(self, *, everywhere: bool = False) -> dict[ir.Value, ir.Value]:
        """As for any function, also after more was emitted."""
        for block in self.machine.blocks.values():
            block.instructions = [each for each in block.instructions if not _is_added(each)]
        replaced = super().link(everywhere=everywhere)
        self.after, self._latest = _replaced(self.after, replaced), _replaced(self._latest, replaced)
        return replaced

    def check_whole(self) -> None:
        """Raises what no call may come after: an exception in a with-block, a kernel that is built inside."""
        self._check_whole()

    def blocks_so_far(self) -> dict[str, MachineBlock]:
        """The machine form of the blocks as they are now, whether or not they end."""
        known = {block.name for block in self.function.blocks}
        blocks = {}
        for block in self.function.blocks:
            recorded = self.machine.blocks.get(block.name, MachineBlock(block.name))
            own = [each for each in recorded.instructions if not _is_added(each)]
            asked = (each.name for each in successors_of(block.terminator))
            targets = [each if each in known else NOWHERE for each in asked]
            targets = [NOWHERE] if block.terminator is None else targets
            same = replace(recorded, instructions=own, successors=list(dict.fromkeys(targets)))
            blocks[block.name] = replace(same, branch=None, sides=None, ranks=(0, 0))
        blocks[NOWHERE] = MachineBlock(NOWHERE)
        return blocks

    def open_blocks(self) -> set[str]:
        """Blocks to which more branches may come: the owner's own, and those of with-blocks that are open."""
        open_regions = self.regions[1:]
        entry = self.function.entry_basic_block
        return {
            block.name
            for block in self.function.blocks
            if block is not entry and (block not in self.homes or self.homes[block] in open_regions)
        }

    def _check_order(self) -> None:
        """Raises attach.order if the owner moved the IRBuilder before code that was already emitted in this block.

        Raises attach.block if it is after the end of a block, or in another function.
        """
        block, place = self.llvm.block, self.llvm._anchor
        if block.parent is not self.function:
            problem = f"it is one of {block.parent.name}, and this is the builder of {self.function.name}"
            rules.ATTACH_BLOCK.fail(block=block.name, problem=problem, advice="attach to each function by itself")
        if block.terminator in block.instructions[:place]:
            problem, advice = "the IRBuilder is after its end", "emit before the block is ended, or in another one"
            rules.ATTACH_BLOCK.fail(block=block.name, problem=problem, advice=advice)
        latest = self._latest.get(block.name)
        if latest is not None and latest not in block.instructions[:place]:
            rules.ATTACH_ORDER.fail(block=block.name)
        if place:
            self._latest[block.name] = block.instructions[place - 1]


def _replaced(
    places: Mapping[Key, ir.Instruction | None], replaced: Mapping[ir.Value, ir.Value]
) -> dict[Key, ir.Instruction | None]:
    return {key: replaced.get(each, each) for key, each in places.items()}


def _is_added(instruction: MachineInstr) -> bool:
    """Whether it is the return that `link` appends where the owner's code returns."""
    return instruction.row is None and instruction.semantics.exits and instruction.location is None
