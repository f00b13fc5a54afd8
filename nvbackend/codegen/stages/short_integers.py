"""Operations of PTX on 16-bit integers that a ptxas gets wrong in silence, as operations on words.

- Minima and maxima. From sm_90 on, ptxas makes one instruction of one of these and of the maximum with 0 of that
  (VIMNMX.S16x2.RELU), and one of two whose results a program packs, all with 0 or none, whatever the program says
  (12.9, 13.0 and 13.5). A ptxas before 13.5 takes a comparison with the constant from the half of a register that is
  not used. Pairs of s16 keep their instruction, and pass a copy that ptxas does not see through.
- The negative and the absolute value. A ptxas before 13.5 takes their 32-bit result for one that fits 16 bits, so that
  of -32768 a later comparison, shift or conversion sees 32768.
- A number of 16 bits that was converted from f32, masked, and packed as the lower half: a ptxas before 13.5 leaves out
  the mask. It passes such a copy.
- The low byte of a float of 16 bits that is stored: a ptxas before 13.5 stores the number as an integer. It passes a
  copy as well.

An H200 gave the wrong numbers of each, with ptxas 13.0 or the driver of CUDA 13.0, of the first with 13.5 too. The PTX
is rewritten and not the IR, for LLVM's code generator makes such operations of others: of a product with -16384, of a
byte's negative. A line stays a line.
"""

from __future__ import annotations

import re

from nvbackend.codegen.stages.opaque import same_half, same_word
from nvbackend.diagnostics.classes.late_pattern import late_pattern

_EXTREME = late_pattern(r"^(\s*)(min|max)\.([su])16\s+(%\w+), (%\w+), (%\w+|-?\d+);$", re.MULTILINE)
_SIGN = late_pattern(r"^(\s*)(neg|abs)\.s16\s+(%\w+), (%\w+);$", re.MULTILINE)
_PAIR = late_pattern(r"^(\s*max\.s16x2\s+(%\w+), .*;)$", re.MULTILINE)
_MASKED = late_pattern(r"^(\s*and\.b16\s+(%\w+), (%\w+), -?\d+;)$", re.MULTILINE)
_FROM_F32 = late_pattern(r"\bcvt\.\w+\.[\w.]*\.f32\s+(%\w+),")
_OF_A_WORD = late_pattern(r"cvt\.u32\.u16 word, (%\w+); cvt\.u16\.u32 (%\w+), word;")
_OF_HALVES = late_pattern(
    r"\b(?:cvt\.[\w.]*\.(?:f16|bf16)\.\w+|(?:add|sub|mul|fma|neg|abs|min|max)\.(?:\w+\.)*(?:f16|bf16))\s+(%\w+),"
)
_BYTES = late_pattern(r"^(\s*)(st\.[\w.:]*\bb8\s+\[[^]]*\], )([^;]*;)$", re.MULTILINE)
_STORE_OF_BYTES = late_pattern(r"st\.[\w.:]*b8\s")
"""What a line of bytes has; declarations have bytes as well."""
_REGISTER = late_pattern(r"%\w+")
_HALF_BITS = 16


def in_words(ptx: str) -> str:
    """The PTX, with words in place of the 16-bit integers of these operations."""
    if "16" not in ptx:
        return ptx
    # A plain search costs next to nothing, and most kernels have none of these.
    if any(name in ptx for name in ("min.s16", "min.u16", "max.s16", "max.u16")):
        ptx = _EXTREME.sub(_extreme_of_words, ptx)
    if "neg.s16" in ptx or "abs.s16" in ptx:
        ptx = _SIGN.sub(_sign_of_a_word, ptx)
    if "max.s16x2" in ptx:
        ptx = _PAIR.sub(lambda pair: f"{pair[1]} {same_word(pair[2], pair[2])}", ptx)
    return _bytes_of_halves(_masked_apart(ptx))


def _extreme_of_words(extreme: re.Match[str]) -> str:
    indent, name, sign, result, left, right = extreme.groups()
    extend, second = f"cvt.{sign}32.{sign}16", ""
    if right.startswith("%"):
        second, other = f" {extend} %other, {right};", "%other"
    else:
        other = str(int(right) % (1 << _HALF_BITS)) if sign == "u" else right
    operation = f"{extend} %word, {left};{second} {name}.{sign}32 %word, %word, {other}; cvt.u16.u32 {result}, %word;"
    return f"{indent}{{ .reg .b32 %word, %other; {operation} }}"


def _sign_of_a_word(sign: re.Match[str]) -> str:
    indent, name, result, value = sign.groups()
    operation = f"cvt.s32.s16 %word, {value}; {name}.s32 %word, %word; cvt.u16.u32 {result}, %word;"
    return f"{indent}{{ .reg .b32 %word; {operation} }}"


def _masked_apart(ptx: str) -> str:
    """The PTX, whose masked numbers that were converted from f32 pass a `prmt`."""
    converted = set(_FROM_F32.findall(ptx)) if "and.b16" in ptx else set()
    converted |= {result for value, result in _OF_A_WORD.findall(ptx) if value in converted}

    def apart(masked: re.Match[str]) -> str:
        if masked[3] not in converted:
            return masked[0]
        return f"{masked[1]} {{ .reg .b32 %word; {same_half(masked[2], masked[2])} }}"

    return _MASKED.sub(apart, ptx) if converted else ptx


def _bytes_of_halves(ptx: str) -> str:
    """The PTX, whose floats of 16 bits pass a `prmt` before a byte of them is stored."""
    halves = set(_OF_HALVES.findall(ptx)) if _STORE_OF_BYTES.search(ptx) else set()

    def stored(store: re.Match[str]) -> str:
        indent, address, values = store.groups()
        floats = [name for name in dict.fromkeys(_REGISTER.findall(values)) if name in halves]
        if not floats:
            return store[0]
        copies = {name: f"%byte{place}" for place, name in enumerate(floats)}
        values = _REGISTER.sub(lambda name: copies.get(name[0], name[0]), values)
        steps = " ".join(same_half(copy, name) for name, copy in copies.items())
        return f"{indent}{{ .reg .b32 %word; .reg .b16 %byte<{len(floats)}>; {steps} {address}{values} }}"

    return _BYTES.sub(stored, ptx) if halves else ptx
