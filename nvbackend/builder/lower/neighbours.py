"""Results that ptxas would merge with what a program packs beside them, kept apart from it.

ptxas 12.9, 13.0 and 13.5 do so with two kinds, and give wrong numbers in silence: seen on an H200 and in the SASS.

The machine's conversions to pairs of e4m3, e5m2, e2m3, e3m2 and ue8m0 (F2FP..MERGE_C) write one half of a register and
put a third operand into the other. Where a program packs such a pair with a 16-bit integer, `{pair, integer}`, ptxas
takes this form, and later uses of the integer read the pair in its place. A pair that went through a 32-bit register
is not merged.

Of a half of `max.s16x2.relu` and another maximum of 16 bits, packed, ptxas makes one instruction (VIMNMX.S16x2.RELU),
which takes the maximum with 0 of both or of neither. A word that was copied so that ptxas does not see through is not
merged.
"""

from __future__ import annotations

from llvmlite import ir

from nvbackend.codegen.stages.opaque import same_word

_APART = {
    16: ("{ .reg .b32 word; cvt.u32.u16 word, $1; cvt.u16.u32 $0, word; }", "=h,h"),
    32: (same_word("$0", "$1"), "=r,r"),
}
"""The text and the constraints that keep an integer of so many bits apart."""


def kept_apart(builder: ir.IRBuilder, results: dict[str, list[ir.Value]]) -> dict[str, list[ir.Value]]:
    """The same results; integers of 16 and 32 bits went through an instruction that ptxas does not see through."""
    return {name: [_apart(builder, value) for value in values] for name, values in results.items()}


def _apart(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    if not isinstance(value.type, ir.IntType) or value.type.width not in _APART:
        return value
    text, constraints = _APART[value.type.width]
    asm = ir.InlineAsm(ir.FunctionType(value.type, [value.type]), text, constraints, side_effect=False)
    return builder.call(asm, [value])
