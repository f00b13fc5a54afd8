"""Pairs of narrow floats, kept apart from what a program packs with them.

The machine's conversions to pairs of e4m3, e5m2, e2m3, e3m2 and ue8m0 (F2FP..MERGE_C) write one half of a register and
put a third operand into the other. Where a program packs such a pair with a 16-bit integer, `{pair, integer}`, ptxas
takes this form, and later uses of the integer read the pair in its place: wrong numbers, in silence. ptxas 12.9, 13.0
and 13.5 do so: seen on an H200, and in the SASS of sm_89, sm_90a, sm_100a and sm_120a. A pair that went through a
32-bit register is not merged.
"""

from __future__ import annotations

from llvmlite import ir

_HALF, _WORD = ir.IntType(16), "{ .reg .b32 word; cvt.u32.u16 word, $1; cvt.u16.u32 $0, word; }"


def kept_apart(builder: ir.IRBuilder, results: dict[str, list[ir.Value]]) -> dict[str, list[ir.Value]]:
    """The same results; those of 16 bits went through a word."""
    return {name: [_through_word(builder, value) for value in values] for name, values in results.items()}


def _through_word(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    if value.type != _HALF:
        return value
    asm = ir.InlineAsm(ir.FunctionType(_HALF, [_HALF]), _WORD, "=h,h", side_effect=False)
    return builder.call(asm, [value])
