"""Registers that a text reads where none of its instructions has written them: they hold anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nvbackend.builder.ops.inline import effects as of_text
from nvbackend.ptx.syntax import (
    Address,
    Block,
    Instruction,
    Label,
    Name,
    Negated,
    Pair,
    Statement,
    Sum,
    Variable,
    Vector,
)

_READS_FIRST = frozenset({"nanosleep", "bar", "barrier", "setmaxnreg", "st", "red"})
"""Instructions whose first operand is not written; those of `red` of a barrier have a result."""


def written(instruction: Instruction) -> frozenset[str]:
    """The registers that an instruction writes."""
    return frozenset().union(*(of_text.written(instruction, place) for place in _written_places(instruction)))


def read_unset(statements: Sequence[Statement], outputs: Iterable[str]) -> tuple[str, Instruction] | None:
    """The first read of one of `outputs`, or of a register of the text, that no instruction before it writes.

    A write under a predicate counts as one. None for a text with labels, which is not followed.
    """
    if _has_label(statements):
        return None
    unset = {name: [name] for name in outputs}
    return next(_reads(statements, unset), None)


def _written_places(instruction: Instruction) -> tuple[int, ...]:
    """Which of its operands an instruction writes."""
    opcode, *parts = instruction.parts
    if (opcode in _READS_FIRST and "red" not in parts) or "dealloc" in parts:
        return ()
    return (0, 1) if instruction.parts[:3] == ("tcgen05", "ld", "red") else (0,)


def _has_label(statements: Sequence[Statement]) -> bool:
    return any(
        isinstance(each, Label) or (isinstance(each, Block) and _has_label(each.statements)) for each in statements
    )


def _reads(statements: Sequence[Statement], unset: Mapping[str, list[str]]) -> Iterator[tuple[str, Instruction]]:
    """Every such read. `unset` has the registers in scope; the list of one that was written is empty."""
    scope = dict(unset)
    for each in statements:
        if isinstance(each, Variable):
            scope |= {name: [name] for name in _declared(each)}
        elif isinstance(each, Block):
            yield from _reads(each.statements, scope)
        elif isinstance(each, Instruction):
            yield from ((name, each) for name in _read(each) if scope.get(name))
            for name in written(each):
                scope.get(name, []).clear()


def _declared(variable: Variable) -> Iterator[str]:
    """The registers that a declaration makes; vectors, which are written by element, are left out."""
    if variable.space == "reg" and variable.vector == 1:
        count = variable.registers
        yield from (variable.name,) if count is None else (f"{variable.name}{index}" for index in range(count))


def _read(instruction: Instruction) -> Iterator[str]:
    """The registers that an instruction certainly reads."""
    if instruction.guard is not None:
        yield instruction.guard.register.text
    places = _written_places(instruction)
    for place, each in enumerate(instruction.operands):
        if place not in places or isinstance(each, Address):
            yield from _names(each)


def _names(node: object) -> Iterator[str]:
    if isinstance(node, Name):
        yield node.text
    elif isinstance(node, (Sum, Negated)):
        yield node.name.text
    elif isinstance(node, Vector):
        for each in node.elements:
            yield from _names(each)
    elif isinstance(node, Pair):
        yield from (*_names(node.first), *_names(node.second))
    elif isinstance(node, Address):
        yield from (*_names(node.base), *_names(node.coordinates))
