"""Chooses the parameters: the least ones for which every loop makes as many rounds as are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.program.layout import constant
from nvbackend.dry_run.scenario.rounds import Rounds
from nvbackend.dry_run.seam import Launch
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryUse

START = 4096
"""The values from which the search begins, and those of parameters on which no loop depends."""
MOST_BUFFERS = 12
"""A ring has at most so many buffers."""
_ODD = (1, 3, 5, 7, 9, 11, 13, 15, 17)
_CANDIDATES = sorted({odd << shift for odd in _ODD for shift in range(13) if odd << shift <= START})


def choose(rounds: Rounds, names: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """The parameters called `names`, with their bits, such that each loop makes as many rounds as `wanted` by header.

    Of parameters with the same number of rounds the one that the largest power of two divides: kernels ask for whole
    tiles.
    """
    chosen = {name: min(START, (1 << bits - 1) - 1) if bits > 1 else 1 for name, bits in names.items()}
    least = {header: min(number, wanted.get(header, 1)) for header, number in rounds.of(chosen).items()}
    deciding = [name for name in chosen if name in rounds.parameters]
    for name in reversed(deciding):
        chosen[name] = _least(rounds, chosen, name, least)
    return chosen


def rounds_of(function: ir.Function, program: Program, launch: Launch) -> Rounds:
    """The rounds of the loops of `function` in the grid's first thread."""
    names = [block.name for block in program.blocks]
    loops = {names[loop.header]: {names[number] for number in loop.blocks} for loop in program.loops}
    special = {f"{name}.{axis}": 0 for name in ("tid", "ctaid", "clusterid", "cluster_ctaid") for axis in "xyz"}
    special |= {f"{name}.{axis}": 1 for name in ("ntid", "nctaid", "nclusterid", "cluster_nctaid") for axis in "yz"}
    special |= {"cluster_ctarank": 0, "laneid": 0, "warpid": 0, "ntid.x": launch.threads, "nclusterid.x": launch.grid}
    special |= dict.fromkeys(("cluster_nctaid.x", "cluster_nctarank"), launch.cluster)
    special["nctaid.x"] = launch.grid * launch.cluster
    return Rounds(function, loops, special, program.computed, lambda one: constant(one, program.places))


@dataclass(frozen=True, slots=True)
class Scale:
    """How many rounds a run makes: `outer` of loops around others, and `more` than rings need of those inside.

    `grid` is the number of clusters that are launched, of which the first runs.
    """

    outer: int
    more: int
    grid: int


SCALES = (Scale(2, 0, 1), Scale(4, 1, 2))
"""From the cheapest; the second has more than one tile for each of two consumers that take turns."""


class Wanted:
    """How many rounds to make of each loop: enough that rings of buffers are used more than once."""

    def __init__(self, function: ir.Function, machine: MachineFunction, program: Program) -> None:
        self._program = program
        constants = [_restarts(block) for block in function.blocks]
        barriers = [_barriers(machine.blocks[block.name].instructions) for block in function.blocks]
        self._depths = [
            max(barriers[number] for number in loop.blocks) or max(constants[number] for number in loop.blocks) or 1
            for loop in program.loops
        ]

    def of(self, scale: Scale) -> dict[str, int]:
        """By the loops' headers. Loops around others make few rounds; others fill their ring once and more."""
        loops, found = self._program.loops, {}
        for index, (loop, depth) in enumerate(zip(loops, self._depths, strict=True)):
            inner = any(one is not loop and one.header in loop.blocks for one in loops)
            nested = any(loop.header in one.blocks for one in loops[:index])
            rounds = scale.outer if inner else depth + 1 + scale.more if nested else 2 * depth + 1 + scale.more
            found[self._program.blocks[loop.header].name] = rounds
        return found


def _barriers(instructions: Sequence[MachineInstr]) -> int:
    """The mbarriers of the largest array that is used: as many as a ring has buffers."""
    sizes = [
        touch.object.bytes // touch.object.element_bytes
        for instr in instructions
        if instr.semantics.mbarrier is not None
        for touch in instr.memory
        if touch.use is MemoryUse.SYNCHRONIZE
    ]
    return max((one for one in sizes if one <= MOST_BUFFERS), default=0)


def _restarts(block: ir.Block) -> int:
    """The largest number at which a counter of `block` starts again: the buffers of a ring, if it is one's."""
    depth = 0
    for one in block.instructions:
        if one.opname not in ("icmp", "urem", "srem", "udiv", "sdiv", "and"):
            continue
        number = getattr(one.operands[1], "constant", None)
        if not isinstance(number, int) or not 1 < number <= MOST_BUFFERS:
            continue
        if one.opname == "and":
            depth = max(depth, number + 1 if _is_counter(one.operands[0]) else 0)
        elif one.opname != "icmp" or str(one.op) == "eq":
            depth = max(depth, number)
    return depth


def _is_counter(value: ir.Value) -> bool:
    """Whether it is a variable, or one and a number."""
    if getattr(value, "opname", "") == "add":
        value = value.operands[0]
    return getattr(value, "opname", "") == "load" and isinstance(value.operands[0], ir.AllocaInstr)


def _least(rounds: Rounds, chosen: Mapping[str, int], name: str, least: Mapping[str, int]) -> int:
    found: tuple[int, dict[str, int]] | None = None
    for candidate in _CANDIDATES:
        if candidate > chosen[name]:
            break
        made = rounds.of({**chosen, name: candidate})
        if found is None:
            if all(made.get(header, 0) >= number for header, number in least.items()):
                found = candidate, made
        elif made != found[1]:
            break
        elif candidate & -candidate > found[0] & -found[0]:
            found = candidate, made
    return chosen[name] if found is None else found[0]
