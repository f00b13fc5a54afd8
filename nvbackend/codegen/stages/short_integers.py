"""Operations of PTX on 16-bit integers that ptxas gets wrong, as operations on words.

- The maximum with 0. From sm_90 on, ptxas makes one instruction of a minimum or maximum and of the maximum with 0 of
  that (VIMNMX.S16x2.RELU), and one of two whose results a program packs, all with 0 or none, whatever the program says
  (ptxas 12.9, 13.0 and 13.5; seen on an H200). A maximum of two pairs is merged in the same way; a `prmt`, which leaves
  every byte at its place, keeps it apart.
- The negative and the absolute value. A ptxas before 13.5 takes their 32-bit result for one that fits 16 bits, so that
  of -32768 a later comparison, shift or conversion sees 32768 (12.9 and 13.0, and the driver of CUDA 13.0; seen on an
  H200).

The PTX is rewritten and not the IR, for LLVM's code generator makes such operations of others: of a product with
-16384, of a byte's negative. A line stays a line.
"""

from __future__ import annotations

import re

_SHORT = r"^(\s*){opcode}\s+(%\w+), (%\w+){third};$"
_IN_A_WORD = r"\1{{ .reg .b32 %word; cvt.s32.s16 %word, \3; {operation}; cvt.u16.u32 \2, %word; }}"
_PAIRS = "max.s16x2"
_OPERATIONS = {
    "max.s16": (", 0", "max.s32 %word, %word, 0"),
    "neg.s16": ("", "neg.s32 %word, %word"),
    "abs.s16": ("", "abs.s32 %word, %word"),
}
"""By the opcode of 16 bits: the operand that makes it one that is rewritten, and what computes in 32 bits."""
_REWRITTEN = {
    opcode: (
        re.compile(_SHORT.format(opcode=re.escape(opcode), third=third), re.MULTILINE),
        _IN_A_WORD.format(operation=operation),
    )
    for opcode, (third, operation) in _OPERATIONS.items()
} | {
    _PAIRS: (re.compile(rf"^(\s*{re.escape(_PAIRS)}\s+(%\w+), .*;)$", re.MULTILINE), r"\1 prmt.b32 \2, \2, 0, 0x3210;")
}


def in_words(ptx: str) -> str:
    """The PTX, with words in place of the 16-bit integers of these operations."""
    for opcode, (pattern, replacement) in _REWRITTEN.items():
        if opcode in ptx:
            ptx = pattern.sub(replacement, ptx)
    return ptx
