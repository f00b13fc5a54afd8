"""The packed words of an instruction whose operands were not made of a layout: what their arithmetic shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llvmlite import ir

from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.value_tracking.expressions.bits import Bits
from nvbackend.intrinsics.row.row import Role, Row
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.intrinsics.words.control_words import control_words
from nvbackend.intrinsics.words.smem_descriptor import ADDRESS_MASK, ADDRESS_SHIFT
from nvbackend.isel.flow.memory_uses import descriptor_use
from nvbackend.isel.machine.packed_words import INSTRUCTION_DESCRIPTOR

_ADDRESS_FIELD = ADDRESS_MASK >> ADDRESS_SHIFT
_UPPER = (1 << 64) - (1 << 16)
"""What no address reaches, nor the carry of one that is advanced: the word is known where all of this is."""
_DESCRIBED = (Completion.MMA_GROUP, Completion.COMMIT)
"""How the instructions that take descriptors complete."""
_STEPS = 16
"""How many run-time advances back a descriptor is followed."""


def words_of(row: Row, operands: Operands, bits: Bits, known: dict[str, int]) -> dict[str, int]:
    """The words of `row` with these operands, by name: the `known` ones, and what else the program shows of them.

    A descriptor whose constant part is not known has none, and no constant without strides, which stands where none
    is at hand.
    """
    found = dict(known)
    if row.semantics.issues not in _DESCRIBED:
        return found
    if row.semantics.issues is Completion.COMMIT and row.semantics.multiplies:
        found = {**control_words(row), **found}
    for name, value in _descriptors(row, operands):
        word = found.pop(name, None)  # those of operands follow in the row's order
        word = _word(value, bits, whole=name == INSTRUCTION_DESCRIPTOR) if word is None else word
        if word is not None:
            found[name] = word
    return found


def _descriptors(row: Row, operands: Operands) -> Iterator[tuple[str, ir.Value]]:
    for operand in row.operands:
        if operand.role is not Role.INPUT:
            continue
        if operand.name == INSTRUCTION_DESCRIPTOR or descriptor_use(row, operand) is not None:
            given = operands.get(operand.name)
            value = given[0] if isinstance(given, Sequence) else given
            if isinstance(value, ir.Value):
                yield operand.name, value


def _word(value: ir.Value, bits: Bits, *, whole: bool) -> int | None:
    """The constant bits of a descriptor, without its address unless that is a constant too; None where not known."""
    for _ in range(_STEPS):
        mask, constant = bits.known(value)
        if isinstance(value, ir.Constant):
            return constant if whole or constant & _UPPER else None
        if whole:
            return constant if mask.bit_count() == value.type.width else None
        if not _UPPER & ~mask:
            return constant & ~_ADDRESS_FIELD
        if not isinstance(value, ir.Instruction) or value.opname != "add":
            return None
        made = [one for one in value.operands if _is_made(one, bits)]
        if len(made) != 1:
            return None
        value = made[0]
    return None


def _is_made(value: ir.Value, bits: Bits) -> bool:
    """Whether a summand is the descriptor, and not the distance that it is advanced by."""
    if bits.known(value)[1] & _UPPER:
        return True
    advanced = isinstance(value, ir.Instruction) and value.opname == "add"
    return advanced and any(_is_made(one, bits) for one in value.operands)
