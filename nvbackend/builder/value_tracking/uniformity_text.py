"""A condition in words, from the LLVM IR that computes it."""

from __future__ import annotations

from llvmlite import ir

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    **dict.fromkeys(("lshr", "ashr"), ">>"),
    **dict.fromkeys(("udiv", "sdiv"), "//"),
    **dict.fromkeys(("urem", "srem"), "%"),
    "eq": "==",
    "ne": "!=",
    **dict.fromkeys(("slt", "ult"), "<"),
    **dict.fromkeys(("sle", "ule"), "<="),
    **dict.fromkeys(("sgt", "ugt"), ">"),
    **dict.fromkeys(("sge", "uge"), ">="),
}
_CALLS = {
    "llvm.nvvm.read.ptx.sreg.": "",
    "llvm.nvvm.shfl.sync.idx": "uniform",
    "llvm.nvvm.elect.sync": "elect",
}
_CUT = "..."
_DEPTH = 4
"""Expressions deeper than this are cut off."""


def described(value: ir.Value, depth: int = _DEPTH) -> str:
    """`value` as an expression over special registers, parameters and variables."""
    while isinstance(value, (ir.CastInstr, ir.ExtractValue)):
        value = value.aggregate if isinstance(value, ir.ExtractValue) else value.operands[0]
    if not isinstance(value, ir.Instruction):
        return str(value.constant if isinstance(value, ir.Constant) else getattr(value, "name", _CUT))
    if isinstance(value, ir.LoadInstr):
        return str(value.operands[0].name) if isinstance(value.operands[0], ir.AllocaInstr) else _CUT
    if depth and isinstance(value, ir.CallInstr):
        return _call(value, depth)
    operator = _OPERATORS.get(value.op if isinstance(value, ir.ICMPInstr) else value.opname)
    if operator is None or depth == 0:
        return _CUT
    left, right = (_inner(operand, depth) for operand in value.operands)
    return f"{left} {operator} {right}"


def _inner(value: ir.Value, depth: int) -> str:
    text = described(value, depth - 1)
    return f"({text})" if " " in text and not text.endswith(")") else text


def _call(call: ir.CallInstr, depth: int) -> str:
    name = "" if isinstance(call.callee, ir.InlineAsm) else str(call.callee.name)
    for prefix, spelling in _CALLS.items():
        if name.startswith(prefix):
            if not spelling:
                return name.removeprefix(prefix)
            return f"{spelling}({described(call.args[1], depth - 1) if len(call.args) > 1 else ''})"
    return _CUT
