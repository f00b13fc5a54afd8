"""The machine form of a function with an owner: what the builder recorded and what the owner's own calls are, merged.

From what is unknown on nothing can be said along the control flow. So it ends each path there, and every block that can
be reached from it is taken off the paths: what is judged ran before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

from llvmlite import ir

from nvbackend.builder.attached.core import NOWHERE
from nvbackend.builder.attached.debug_places import place_of
from nvbackend.builder.attached.foreign import Foreign
from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.flow.graphs import reached
from nvbackend.isel.machine.function import MachineBlock, MachineInstr
from nvbackend.isel.machine.pseudo import UNKNOWN

Places = Mapping[int, "ir.Instruction | None"]
"""By the identity of an instruction of the machine form: the one of LLVM that it follows in its block."""


@dataclass
class Whole:
    """The blocks with all that is known, the places in them from which on nothing is known, and what is unknown."""

    blocks: dict[str, MachineBlock] = field(default_factory=dict)
    stops: dict[str, int] = field(default_factory=dict)
    unknown: list[tuple[str, Location | None]] = field(default_factory=list)
    unassembled: list[str] = field(default_factory=list)
    hides: bool = False
    multiplies: bool = False
    """Whether the owner multiplies matrices: which accumulators it writes is not known."""

    @property
    def is_known(self) -> bool:
        """Whether nothing in the function is unknown."""
        return not self.unknown and not self.hides


def merged(
    function: ir.Function,
    blocks: Mapping[str, MachineBlock],
    after: Places,
    foreign: Callable[[ir.Instruction], Foreign | None],
) -> Whole:
    """`blocks` with the machine instructions of the owner's calls in their places; `foreign` says what a call is."""
    whole = Whole()
    by_name = {block.name: block for block in function.blocks}
    for name, block in blocks.items():
        if name not in by_name:
            whole.blocks[name] = block
            continue
        own = _placed(by_name[name], block.instructions, after)
        instructions: list[MachineInstr] = []
        for place, instruction in enumerate(by_name[name].instructions):
            said = foreign(instruction)
            if said is None:
                continue
            while own and own[0][0] < place:
                instructions.append(own.pop(0)[1])
            instructions += said.instructions
            whole.multiplies = whole.multiplies or any(each.semantics.multiplies for each in said.instructions)
            whole.hides = whole.hides or said.hides
            if said.unassembled:
                whole.unassembled.append(said.unassembled)
            if said.unknown:
                whole.unknown.append((said.unknown, place_of(instruction)))
                whole.stops.setdefault(name, len(instructions))
                instructions.append(MachineInstr(UNKNOWN, location=place_of(instruction)))
        instructions += [instruction for _, instruction in own]
        whole.blocks[name] = replace(block, instructions=instructions)
    return whole


def _placed(block: ir.Block, instructions: Sequence[MachineInstr], after: Places) -> list[tuple[float, MachineInstr]]:
    """The recorded instructions, each with the place of the one of LLVM that it follows; at the end, without one."""
    places = {id(instruction): place for place, instruction in enumerate(block.instructions)}
    placed: list[tuple[float, MachineInstr]] = []
    for instruction in instructions:
        if id(instruction) in after:
            follows = after[id(instruction)]
            place: float = -1 if follows is None else places.get(id(follows), -1)
        else:
            place = float("inf")
        placed.append((max(place, placed[-1][0] if placed else -1), instruction))
    return placed


def cut(
    blocks: Mapping[str, MachineBlock], stops: Mapping[str, int], open_: Collection[str] = ()
) -> tuple[dict[str, MachineBlock], list[MachineInstr]]:
    """The blocks up to where something unknown is executed, and the instructions that may come after that.

    `stops` are the places of the first unknown instructions, by block; who comes to the blocks `open_`, and from where,
    is not known either.
    """
    if not stops and not open_:
        return dict(blocks), []
    following = {name: block.successors for name, block in blocks.items()}
    starts = {successor for name in stops for successor in following[name]} | set(open_)
    unknown = reached(starts, lambda name: following[name])
    kept: dict[str, MachineBlock] = {}
    after: list[MachineInstr] = []
    for name, block in blocks.items():
        if name in unknown:
            after += block.instructions
        elif name in stops:
            kept[name] = _ended(replace(block, instructions=block.instructions[: stops[name]]), [NOWHERE])
            after += block.instructions[stops[name] :]
        else:
            targets = [NOWHERE if each in unknown else each for each in block.successors]
            kept[name] = _ended(block, list(dict.fromkeys(targets)))
    kept[NOWHERE] = MachineBlock(NOWHERE)
    return kept, after


def _ended(block: MachineBlock, successors: list[str]) -> MachineBlock:
    """The block with other successors: how it chooses among them is known where it has as many."""
    if successors == block.successors:
        return block
    if len(successors) == len(block.successors):
        return replace(block, successors=successors)
    return replace(block, successors=successors, branch=None, sides=None, ranks=(0, 0))
