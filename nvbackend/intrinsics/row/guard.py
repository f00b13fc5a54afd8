"""Guarded rows: the same instruction, executed only by the threads whose predicate is true.

A guard spares the branch around a single instruction, and the blocks that a branch makes (PTX ISA 9.3, predicated
execution).
"""

from __future__ import annotations

import dataclasses
from functools import cache

from nvbackend.intrinsics.row.row import Asm, RegisterClass, Row, operand

GUARD = "guard"


@cache
def guarded(row: Row) -> Row:
    """`row` with one more input, the predicate `guard`. Only for rows without outputs that lower through asm."""
    if not isinstance(row.lowering, Asm) or row.outputs:
        raise ValueError(f"{row.ptx} has outputs, or lowers through an intrinsic: it cannot be guarded")
    predicate = operand(GUARD, RegisterClass.PRED, meaning="the threads that execute it")
    return dataclasses.replace(
        row,
        operands=(*row.operands, predicate),
        lowering=Asm(f"@{{{GUARD}}} {row.lowering.template}"),
    )
