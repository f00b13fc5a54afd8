"""Clamps to 0 and 1 that ptxas would make of another NaN, in PTX.

The larger of 0 and the smaller of 1 and a number is 1 for NaN: `min` and `max` leave out what is not a number (PTX ISA
9.7.3.11, 9.7.3.12), and a select by a comparison takes the constant. ptxas makes an instruction with `.sat` of the two
(FADD.SAT, HADD2.SAT), which gives 0: the SASS of 13.0 and 13.5 has it for f32 and f16, and an H200 gave 0 by HADD2.SAT.
The other order, the smaller of 1 and the larger of 0 and a number, is 0 for NaN, and stays one instruction. ptxas also
takes a maximum of integers for the step from below, where their bits are read as a float. A copy that ptxas does not
see through parts the two steps.
"""

from __future__ import annotations

import re

from nvbackend.codegen.stages.opaque import same_half, same_word

_ONE, _HALF_ONE = "0f3F800000", "0x3C00"
_ZERO = "0f[08]0000000"
_BELOW_ONE = rf"\b(?:min(?:\.ftz)?|selp)\.f32\s+(%\w+), [^;]*\b{_ONE}\b[^;]*;"
_ABOVE_ZERO = (
    rf"(?m)^(?P<before>\s*(?:max(?:\.ftz)?\.f32\s+%\w+, |selp\.f32\s+%\w+, (?:{_ZERO}, )?))"
    rf"(?P<value>%\w+)(?P<after>(?:, {_ZERO})?(?:, %p\d+)?;)$"
)
_HALF_OF_ONE = rf"\bmov\.b16\s+(%\w+), {_HALF_ONE};"
_HALF_BELOW = r"\b(?:min(?:\.ftz)?\.f16|selp\.b16)\s+(%\w+), ([^;]*);"
_HALF_ABOVE = (
    r"(?m)^(?P<before>\s*max(?:\.ftz)?\.f16\s+%\w+, |\s*selp\.b16\s+%\w+, (?:0x[08]000, )?)"
    r"(?P<value>%\w+)(?P<after>, [^;]*;)$"
)
_OF_INTEGERS = r"\bmax\.s32\s+(%\w+),"
_WORD_ABOVE = rf"(?m)^(?P<before>\s*min(?:\.ftz)?\.f32\s+%\w+, )(?P<value>%\w+)(?P<after>, {_ONE};)$"
_CUT_INTEGERS = r"\bcvt\.u16\.u32\s+(%\w+),"
_HALF_OF_INTEGER = r"(?m)^(?P<before>\s*min(?:\.ftz)?\.f16\s+%\w+, )(?P<value>%\w+)(?P<after>, [^;]*;)$"
_WORD = f"{{{{ .reg .b32 %apart; {same_word('%apart', '{value}')} {{before}}%apart{{after}} }}}}"
_HALF = f"{{{{ .reg .b32 %word; .reg .b16 %apart; {same_half('%apart', '{value}')} {{before}}%apart{{after}} }}}}"


def parted(ptx: str) -> str:
    """The PTX, whose clamps from above and then from below stay two instructions."""
    return _parted_halves(_parted_words(ptx))


def _parted_words(ptx: str) -> str:
    if _ONE not in ptx:
        return ptx
    ptx = _with(ptx, _ABOVE_ZERO, set(re.findall(_BELOW_ONE, ptx)), _WORD)
    return _with(ptx, _WORD_ABOVE, set(re.findall(_OF_INTEGERS, ptx)), _WORD)


def _parted_halves(ptx: str) -> str:
    if _HALF_ONE not in ptx:
        return ptx
    ones = {_HALF_ONE, *re.findall(_HALF_OF_ONE, ptx)}
    below = {result for result, operands in re.findall(_HALF_BELOW, ptx) if ones & set(operands.split(", "))}
    ptx = _with(ptx, _HALF_ABOVE, below, _HALF)
    return _with(ptx, _HALF_OF_INTEGER, set(re.findall(_CUT_INTEGERS, ptx)), _HALF)


def _with(ptx: str, pattern: str, first_steps: set[str], replacement: str) -> str:
    """The PTX, with `replacement` for a second step by `pattern` on a result of a first step."""

    def rewritten(step: re.Match[str]) -> str:
        if step["value"] not in first_steps or not re.search(r"\.f(?:16|32)\b|0x[08]000", step[0]):
            return step[0]
        return replacement.format(value=step["value"], before=step["before"].strip() + " ", after=step["after"])

    return re.sub(pattern, rewritten, ptx) if first_steps else ptx
