"""Functions that nobody changes any more: what is found of one as a whole is kept for every analysis that asks.

What analyses share is asked for through functions that are `kept`. Of a function that is still built they find it anew
each time; of one that is `finished` once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TypeVar, cast

from nvbackend.isel.machine import MachineFunction

Found = TypeVar("Found")


def finished(function: MachineFunction) -> MachineFunction:
    """The same function, with the same blocks, as one whose blocks nobody changes while this is in use."""
    same = replace(function)
    same.kept = {}
    return same


def kept(find: Callable[[MachineFunction], Found]) -> Callable[[MachineFunction], Found]:
    """`find`, whose answer a finished function keeps. The callers share the answer, and must leave it as it is."""

    @wraps(find)
    def ask(function: MachineFunction) -> Found:
        if function.kept is None:
            return find(function)
        if find not in function.kept:
            function.kept[find] = find(function)
        return cast("Found", function.kept[find])

    return ask


def with_successors(function: MachineFunction, successors: Mapping[str, list[str]]) -> MachineFunction:
    """`function`, finished, where some blocks go on otherwise; its instructions and their places are the same."""
    blocks = {
        name: replace(block, successors=successors[name]) if name in successors else block
        for name, block in function.blocks.items()
    }
    return finished(replace(function, blocks=blocks))


@kept
def opcodes(function: MachineFunction) -> frozenset[str]:
    """The opcodes of all instructions."""
    return frozenset([instr.opcode for block in function.blocks.values() for instr in block.instructions])


def has_opcode(function: MachineFunction, prefix: str | tuple[str, ...]) -> bool:
    """Whether the opcode of some instruction begins so."""
    return any(opcode.startswith(prefix) for opcode in opcodes(function))
