"""What an instruction of your own is made of: a `Row`, its operands, its effects, and what it is to the analyses.

`k.instruction(row, ...)` emits it: the target, the operands and the analyses take it as they take nvbackend's own.
`nvbackend catalogue --rows package.module` and `nvbackend explain --rows package.module` show those that the module's
`rows()` gives; of an installed package that names such a function in the entry point group "nvbackend.rows" they do so
by themselves.
"""

from __future__ import annotations

from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    Intrinsic,
    RegisterClass,
    Role,
    Row,
    RowOperand,
    immediate,
    operand,
    output,
)
from nvbackend.intrinsics.row.semantics import (
    Budget,
    Completion,
    FenceOf,
    FenceSemantics,
    MbarrierUse,
    MemoryOperand,
    Proxy,
    Scope,
    Semantics,
    ThreadBarrier,
    reads,
    writes,
)

__all__ = [
    "Asm",
    "Budget",
    "Completion",
    "Effect",
    "Feature",
    "FenceOf",
    "FenceSemantics",
    "Intrinsic",
    "MbarrierUse",
    "MemoryOperand",
    "Proxy",
    "RegisterClass",
    "Role",
    "Row",
    "RowOperand",
    "Scope",
    "Semantics",
    "ThreadBarrier",
    "immediate",
    "operand",
    "output",
    "reads",
    "writes",
]
