"""Assembly whose results of half a register ptxas keeps apart from their neighbours.

The machine's conversions to pairs of 8 bits and less (F2FP..MERGE_C) write one half of a register and put a third
operand into the other. Where a program packs such a pair with a 16-bit integer, `{pair, integer}`, ptxas takes this
form, and later uses of the integer read the pair in its place: wrong numbers, in silence (ptxas 12.9 to 13.5, every
chip from sm_89; seen on an H200, and in the SASS). A pair that went through a 32-bit register is not merged.
"""

from __future__ import annotations

KEPT_APART = ".reg .b16 pair; .reg .b32 word;"
"""The registers through which a result goes."""


def kept_apart(result: str, sources: str) -> str:
    """The template of a conversion to 16 bits, for `Asm`: `result` names its output, `sources` are its operands."""
    return f"{{{{ {KEPT_APART} {{ptx}} pair, {sources}; cvt.u32.u16 word, pair; cvt.u16.u32 {{{result}}}, word; }}}}"
