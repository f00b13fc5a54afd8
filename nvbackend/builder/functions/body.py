"""The end of a function's body, and its code as a text to compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.value_tracking.addresses.operands import is_copy


def return_results(core: Core, results: Sequence[ir.Value]) -> None:
    """Return nothing, the result, or several as a struct."""
    if not results:
        core.llvm.ret_void()
    elif len(results) == 1:
        core.llvm.ret(results[0])
    else:
        together: ir.Value = ir.Constant(core.function.function_type.return_type, ir.Undefined)
        for index, result in enumerate(results):
            together = core.llvm.insert_value(together, result, index)
        core.llvm.ret(together)


def code_of(blocks: Iterable[ir.Block]) -> tuple[str, ...]:
    """What the instructions of a body do, without the names of their registers.

    Copies that keep a number from LLVM are left out: a call knows more of its arguments than the function does.
    """
    return tuple(_shown(instr) for block in blocks for instr in block.instructions if not is_copy(instr))


def _shown(instr: ir.Instruction) -> str:
    name = instr.op if isinstance(instr, ir.CompareInstr) else instr.opname
    callee = str(getattr(instr.callee, "name", instr.callee)) if isinstance(instr, ir.CallInstr) else ""
    constants = [
        str(operand.constant)
        for operand in instr.operands
        if isinstance(operand, ir.Constant) and not isinstance(operand, ir.FormattedConstant)
    ]
    return " ".join([name, callee, *constants])
