"""Operations on 16-bit integers that ptxas gets wrong, as operations on words.

- The maximum with 0. From sm_90 on, ptxas makes one instruction of a minimum or maximum and of the maximum with 0 of
  that (VIMNMX.S16x2.RELU), and one of two whose results a program packs, all with 0 or none, whatever the program says
  (ptxas 12.9, 13.0 and 13.5; seen on an H200).
- The negative and the absolute value. A ptxas before 13.5 takes their 32-bit result for one that fits 16 bits, so that
  of -32768 a later comparison, shift or conversion sees 32768 (12.9 and 13.0, and the driver of CUDA 13.0; seen on an
  H200).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nvbackend.codegen.stages.names import NAME, unused_prefix

_BEFORE = rf"^(?P<before>  {NAME} = )"
_CALLED = r"(?:tail )?call [^@]*?"
_SHORT = r"(?P<type>(?:<(?P<count>\d+) x )?(?P<element>{bits})>?)"
_VALUE = rf"(?:\w+ )*(?P<value>{NAME})"
_ZERO = r"(?:0|zeroinitializer)"
_AFTER = r"(?: #\d+)?(?P<after>(?:, !.*)?)$"
_WORDS = {"smax": "@llvm.smax.", "abs": "@llvm.abs.", "sub": "= sub "}
_OPERATIONS = {
    "smax": re.compile(
        rf"{_BEFORE}{_CALLED}{_SHORT.format(bits='i(?:8|16)')} @llvm\.smax\.\w+\((?P=type) {_VALUE}, "
        rf"(?P=type) {_ZERO}\){_AFTER}"
    ),
    "abs": re.compile(
        rf"{_BEFORE}{_CALLED}{_SHORT.format(bits='i16')} @llvm\.abs\.\w+\((?P=type) {_VALUE}, i1 \w+\){_AFTER}"
    ),
    "sub": re.compile(rf"{_BEFORE}sub {_SHORT.format(bits='i16')} {_ZERO}, {_VALUE}{_AFTER}"),
}
"""By the operation; a negative that cannot overflow (nsw) stays as it is."""
_ON_A_WORD = {"smax": "max.s32 $0, $1, 0;", "abs": "abs.s32 $0, $1;", "sub": "neg.s32 $0, $1;"}
"""As text, for LLVM's code generator makes short operations of those on words of which only 16 bits are used."""


def in_words(ir: str) -> str:
    """The optimised IR, whose maxima with 0, negatives and absolute values of 16 bits are those of 32 bits."""
    if "i16" not in ir and "@llvm.smax.i8" not in ir:
        return ir
    prefix, lines = unused_prefix(ir, "word"), ir.split("\n")
    for place, line in enumerate(lines):
        for operation, pattern in _OPERATIONS.items():
            if _WORDS[operation] in line and (short := pattern.match(line)):
                of_elements = _of_elements if short["count"] else _of_one
                lines[place] = "\n".join(of_elements(operation, short, f"%{prefix}.{place}"))
    return "\n".join(lines)


def _of_one(operation: str, short: re.Match[str], name: str) -> Iterator[str]:
    yield from _widened(operation, short["element"], short["value"], name, short["after"])
    yield f"{short['before']}trunc i32 {name} to {short['element']}{short['after']}"


def _of_elements(operation: str, short: re.Match[str], name: str) -> Iterator[str]:
    """The lines for a vector, an element at a time."""
    vector, last, after = "poison", int(short["count"]) - 1, short["after"]
    for place in range(last + 1):
        element = f"{name}.{place}"
        yield f"  {element}.short = extractelement {short['type']} {short['value']}, i32 {place}{after}"
        yield from _widened(operation, short["element"], f"{element}.short", element, after)
        yield f"  {element}.cut = trunc i32 {element} to {short['element']}{after}"
        begin = short["before"] if place == last else f"  {element}.all = "
        yield f"{begin}insertelement {short['type']} {vector}, {short['element']} {element}.cut, i32 {place}{after}"
        vector = f"{element}.all"


def _widened(operation: str, kind: str, value: str, name: str, after: str) -> Iterator[str]:
    """The lines that make `name` the operation on a word."""
    yield f"  {name}.wide = sext {kind} {value} to i32{after}"
    yield f'  {name} = call i32 asm "{_ON_A_WORD[operation]}", "=r,r"(i32 {name}.wide){after}'
