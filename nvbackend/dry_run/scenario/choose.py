"""Chooses the parameters: the least ones for which every loop makes as many rounds as are wanted."""

from __future__ import annotations

from collections.abc import Mapping

from llvmlite import ir

from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.program.layout import constant
from nvbackend.dry_run.scenario.rounds import Rounds

START = 4096
"""The parameters from which the search begins, and what those are that decide about no loop."""
TILES = 2
"""Rounds of a loop around others."""
MOST_BUFFERS = 12
"""Larger numbers are no ring's."""
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


def rounds_of(function: ir.Function, program: Program) -> Rounds:
    """The rounds of the loops of `function` in the first thread of a grid of one cluster."""
    names = [program.blocks[loop.header].name for loop in program.loops]
    ones = ("nctaid", "nclusterid", "ntid.y", "ntid.z")
    special = {f"{name}.{axis}": 0 for name in ("tid", "ctaid", "clusterid", "cluster_ctaid") for axis in "xyz"}
    special |= {f"{name}.{axis}": 1 for name in ("nctaid", "nclusterid") for axis in "xyz"}
    special |= {"cluster_ctarank": 0, "laneid": 0, "warpid": 0, **dict.fromkeys(ones, 1)}
    return Rounds(function, names, special, program.computed, lambda one: constant(one, program.places))


def wanted(function: ir.Function, program: Program) -> dict[str, int]:
    """How many rounds to make of each loop, by its header: enough that rings of buffers are used more than twice.

    Loops around others make two, and those inside them fill a ring once and more.
    """
    depths = [_depth(block) for block in function.blocks]
    found = {}
    for index, loop in enumerate(program.loops):
        header = program.blocks[loop.header].name
        inner = [one for one in program.loops if one is not loop and one.header in loop.blocks]
        depth = max(depths[number] for number in loop.blocks)
        nested = any(loop.header in one.blocks for one in program.loops[:index])
        found[header] = TILES if inner else depth + 1 if nested else 2 * depth + 1
    return found


def _depth(block: ir.Block) -> int:
    """The largest number at which a counter of `block` starts again: the buffers of a ring, if it is one's."""
    depth = 1
    for one in block.instructions:
        if one.opname not in ("icmp", "urem", "and") or not isinstance(one.operands[1], ir.Constant):
            continue
        number = one.operands[1].constant
        if not isinstance(number, int) or number > MOST_BUFFERS:
            continue
        if one.opname == "urem" or (one.opname == "icmp" and str(one.op) == "eq"):
            depth = max(depth, number)
        elif one.opname == "and" and _is_counter(one.operands[0]):
            depth = max(depth, number + 1)
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
