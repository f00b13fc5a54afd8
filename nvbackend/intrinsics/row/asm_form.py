"""The inline-asm form of rows that lower by an intrinsic, for compilers whose LLVM or libNVVM lacks it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.row.row import Asm, Role, Row, RowOperand

_BRACED = {
    **dict.fromkeys(("wmma.load.a", "wmma.load.b", "wmma.load.c", "wmma.store.d"), ("fragment",)),
    **dict.fromkeys(("wmma.mma", "mma", "mma.sp"), ("d", "a", "b", "c")),
    **dict.fromkeys(("ldmatrix", "stmatrix"), ("fragment",)),
    **dict.fromkeys(("tcgen05.ld", "tcgen05.st"), ("values",)),
}
"""By opcode: operands that PTX has in braces even where they are a single register."""
_PAIRED = {
    "coordinates": "[{tensor_map}, {{{coordinates}}}]",
    "thread_id_a": "{{{byte_id_a}, {thread_id_a}}}",
    "thread_id_b": "{{{byte_id_b}, {thread_id_b}}}",
    "offsets": "{{{offsets}}}",
    "in_range": "{result}|{in_range}",
    "elected": "{leader}|{elected}",
    "equal": "{lanes}|{equal}",
}
"""By the last of its operands: what several operands are one of in PTX, or a vector however long it is."""
_LAST = ("members", "mask")
"""Operands that PTX has at the end, whatever their place in LLVM's call."""
_PLAIN = {"tcgen05.dealloc": "tmem"}
"""By opcode: the operand that is an address and has no brackets."""
_SIZES = {"applypriority": 128, "discard": 128, "st.bulk": 0}
"""By opcode: the number that PTX has at the end, where it can be no other."""


@cache
def asm_form(row: Row) -> Row:
    """`row` as it lowers by inline asm: the same operands, effects and semantics, and the same machine instruction."""
    if isinstance(row.lowering, Asm):
        return row
    operands = ", ".join(_operands(row))
    return dataclasses.replace(row, lowering=Asm(_statement(row, operands)))


def _statement(row: Row, operands: str) -> str:
    if row.opcode.startswith("mov."):  # a special register, whose spelling is an operand
        return f"{row.opcode} {operands}, {{ptx}};"
    return f"{{ptx}} {operands};" if operands else "{ptx};"


def _operands(row: Row) -> Iterator[str]:
    """The operands of the statement in PTX's order: results, what is read, and then what the call has elsewhere."""
    inputs = [each for each in row.operands if each.role is not Role.OUTPUT]
    last = [each for each in inputs if each.name in _LAST]
    ordered = [*row.outputs, *(each for each in inputs if each not in last), *last]
    paired = "".join(_PAIRED[each.name] for each in ordered if each.name in _PAIRED)
    for each in ordered:
        if each.name in _PAIRED:
            yield _PAIRED[each.name]
        elif f"{{{each.name}}}" not in paired:
            yield _text(row, each)
        if row.opcode == "cp.async" and each.name == "source":
            yield str(row.axes["size"])
    if row.opcode in _SIZES:
        yield str(_SIZES[row.opcode])


def _text(row: Row, operand: RowOperand) -> str:
    """An address in brackets, several registers in braces."""
    if operand.register.addrspace is not None and _PLAIN.get(row.opcode) != operand.name:
        return f"[{{{operand.name}}}]"
    if operand.count > 1 or operand.name in _BRACED.get(row.opcode, ()):
        return f"{{{{{{{operand.name}}}}}}}"
    return f"{{{operand.name}}}"
