"""What LLVM is asked to do with a loop: to unroll it, by metadata of the branch back to its head."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from nvbackend.diagnostics import Location, Rule, printed

UNROLL = Rule(
    id="control.unroll",
    message="unroll={given}: {problem}",
    fix="{advice}",
    why="Another loop than the one that was asked for would run.",
    reference="LLVM Language Reference (llvm.loop metadata); docs/guide.md, Values and variables",
)
Unroll = int | bool | None
"""Copies of a loop's body; True for as many as it has rounds, False or 1 for none more, None for LLVM's own choice."""
_MOST = 256
"""LLVM takes 0.8 s for so many copies of a small body whose step is a parameter, and 300 s for 4096."""
_LINE = "nvbackend.line"
"""The property of a loop that says where it is, for the warning where LLVM did not unroll it."""


def check_unroll(unroll: object, rounds: tuple[object, object, object]) -> None:
    """Raises control.unroll unless LLVM can do that with a loop of these `rounds`: start, stop and step."""
    if unroll is None or type(unroll) is bool:
        unknown = [value for value in rounds if not isinstance(value, int)]
        if unroll is True and unknown:
            problem = "the number of rounds is not known when the kernel is built"
            advice = "give a number of copies, unroll=4, or a number of rounds that is a Python integer"
            UNROLL.fail(given=True, problem=problem, advice=advice)
    elif type(unroll) is not int or not 1 <= unroll <= _MOST:
        problem, advice = f"it is a number of copies from 1 to {_MOST}, True or False", "give one, such as unroll=4"
        UNROLL.fail(given=printed(unroll), problem=problem, advice=advice)


def ask(latch: ir.Block, unroll: Unroll, place: Location | None) -> None:
    """Ask for it of the loop whose branch back is the end of `latch`; nothing for None, which leaves the text as is."""
    if unroll is None:
        return
    module, copies = latch.function.module, int(unroll)
    if unroll is True:
        hint = [ir.MetaDataString(module, "llvm.loop.unroll.full")]
    elif copies == 1 or unroll is False:
        hint = [ir.MetaDataString(module, "llvm.loop.unroll.disable")]
    else:
        count = ir.Constant(ir.IntType(32), copies)
        hint = [ir.MetaDataString(module, "llvm.loop.unroll.count"), count]
    where = "" if place is None else f"{place.file}:{place.line}"
    parts = [[ir.MetaDataString(module, _LINE), ir.MetaDataString(module, where)], hint]
    latch.terminator.set_metadata("llvm.loop", _node(module, [module.add_metadata(part) for part in parts]))


def _node(module: ir.Module, parts: list[Any]) -> Any:
    """A loop's own node: its first part is itself, by which LLVM tells loops apart."""
    node = ir.values.MDValue(module, parts, name=str(len(module.metadata)))
    node.operands = (node, *parts)
    return node
