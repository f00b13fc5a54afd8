"""Functions that no longer change: facts about a whole function are kept for every analysis that asks.

What analyses share is asked for through functions that are `kept`. Of a function that is still built they find it anew
each time; of one that is `finished` once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TypeVar, cast

from nvbackend.intrinsics.row.semantics import Semantics
from nvbackend.isel.machine.function import MachineBlock, MachineFunction

Found = TypeVar("Found")


def finished(function: MachineFunction) -> MachineFunction:
    """The same function, with the same blocks, as a function whose blocks do not change while this is in use."""
    same = replace(function)
    same.kept = {}
    return same


def kept(find: Callable[[MachineFunction], Found]) -> Callable[[MachineFunction], Found]:
    """`find`, whose answer a finished function keeps. The callers share the answer, and must leave it as it is."""
    return _asking(find, of_text=False)


def kept_of_text(find: Callable[[MachineFunction], Found]) -> Callable[[MachineFunction], Found]:
    """The same, of what depends on the instructions alone, and not on the successors of blocks."""
    return _asking(find, of_text=True)


def _asking(find: Callable[[MachineFunction], Found], *, of_text: bool) -> Callable[[MachineFunction], Found]:
    key = (of_text, find)

    @wraps(find)
    def ask(function: MachineFunction) -> Found:
        if function.kept is None:
            return find(function)
        if key not in function.kept:
            function.kept[key] = find(function)
        return cast("Found", function.kept[key])

    return ask


def with_successors(function: MachineFunction, successors: Mapping[str, list[str]]) -> MachineFunction:
    """`function`, finished, where some blocks go on otherwise; its instructions and their places are the same."""
    return with_blocks(
        function,
        {name: replace(function.blocks[name], successors=following) for name, following in successors.items()},
    )


def with_blocks(function: MachineFunction, changed: Mapping[str, MachineBlock]) -> MachineFunction:
    """`function`, finished, with some blocks `changed` in where they go on; its instructions are the same."""
    same = replace(function, blocks={**function.blocks, **changed})
    same.kept = {key: value for key, value in (function.kept or {}).items() if key[0]}
    return same


@kept_of_text
def semantics_in(function: MachineFunction) -> tuple[Semantics, ...]:
    """What the instructions are, each once."""
    distinct = {
        id(instr.semantics): instr.semantics for block in function.blocks.values() for instr in block.instructions
    }
    return tuple(distinct.values())
