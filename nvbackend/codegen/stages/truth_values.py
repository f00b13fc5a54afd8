"""Truth values that ptxas would take for numbers of another type.

ptxas 12.9, 13.0 and 13.5 do two things to them, 13.5 at every level but -O0 (the SASS; an H200 gave such numbers):

- `selp.f32` of -1.0 and a zero becomes an integer of -1 or 0, made a float. So -0.0 becomes 0.0, and -1.0 as an
  unsigned integer is 2^32 - 1, where the machine's conversion gives 0.
- In kernels with some branches it follows an integer that a comparison makes 0 or 1 (or 0 and -1) through conversions
  and negations, and forgets of what type it is. The negative of such a number that became a float loses the sign of its
  zero; bits 1 that are read as a float are 1.0.

It leaves alone a select of the bits of two floats, and what a `prmt` gives that leaves every byte at its place. So a
comparison becomes a float by a select, the numbers that a select chooses between are bits, also for LLVM, which would
make -1.0 of others, and what else may be a truth value passes a `prmt` before it becomes a float or is read as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nvbackend.codegen.stages.names import NAME, unused_prefix
from nvbackend.codegen.stages.opaque import same_word
from nvbackend.diagnostics.classes.late_pattern import late_pattern

_BOUNDARY = late_pattern(r"^(?=define )", re.MULTILINE)
_TO_FLOAT = late_pattern(
    rf"^(?P<before>  {NAME} = )(?P<operation>uitofp|sitofp|bitcast) (?:nneg )?(?P<type>i8|i16|i32|(?:<\d+ x )?i1>?) "
    rf"(?P<value>{NAME}) to (?P<float>(?:<\d+ x )?(?P<element>half|bfloat|float|double)>?)(?P<after>.*)$"
)
_CONSTANT = r"(?:-?\d[\w.+-]*|zeroinitializer|splat \([^)]*\)|<[^>]*>)"
_OF_CONSTANTS = late_pattern(
    rf"^(?P<before>  {NAME} = )select (?:\w+ )*(?P<condition>(?:<\d+ x i1>|i1) {NAME}), "
    rf"(?P<type>(?P<count><\d+ x )?float(?P<end>>?)) (?P<yes>{_CONSTANT}), (?P=type) (?P<no>{_CONSTANT})(?P<after>.*)$"
)
_TRUTH = late_pattern(
    rf"^  ({NAME}) = (?:[zs]ext (?:nneg )?i1 |select (?:\w+ )*i1 [^,]+, i\d+ (?:0|-?1), i\d+ (?:0|-?1)(?:,|$))"
)
_MAY_KEEP = late_pattern(rf"^  ({NAME}) = (?:trunc|zext|sext|and|or|xor|sub|select|phi|freeze) ")
_NAME = late_pattern(NAME)
_AS_IT_IS = f'call i32 asm "{same_word("$0", "$1")}", "=r,r"(i32 {{value}})'
_WORD = "i32"


def apart_from_truth(ir: str) -> str:
    """The optimised IR, whose truth values become floats where ptxas leaves them as they are."""
    if "itofp " not in ir and "= bitcast i" not in ir and ", float " not in ir and " x float> " not in ir:
        return ir
    if "itofp " not in ir and "= bitcast " not in ir and not any(" float" in line for line in _selects(ir)):
        return ir
    prefix, functions = unused_prefix(ir, "truth"), _BOUNDARY.split(ir)
    return "".join(_function_apart(text, f"%{prefix}.{number}") for number, text in enumerate(functions))


def _selects(ir: str) -> Iterator[str]:
    """What comes after the word in the lines that have one."""
    at = ir.find("= select ")
    while at >= 0:
        end = ir.find("\n", at)
        yield ir[at:end]
        at = ir.find("= select ", at + 1)


def _function_apart(text: str, prefix: str) -> str:
    lines = text.split("\n")
    of_numbers = [place for place, line in enumerate(lines) if " to " in line]
    conversions = {place: match for place in of_numbers if (match := _TO_FLOAT.match(lines[place]))}
    truths = _truths(lines) if conversions else set()
    for place, conversion in conversions.items():
        if "i1" in conversion["type"].rstrip(">").split():
            lines[place] = _selected(conversion)
        elif conversion["value"] in truths:
            lines[place] = "\n".join(_passed_on(conversion, f"{prefix}.{place}"))
    for place, line in enumerate(lines):
        if "= select " in line and (choice := _OF_CONSTANTS.match(line)):
            lines[place] = "\n".join(_of_bits(choice, f"{prefix}.{place}"))
    return "\n".join(lines)


def _truths(lines: list[str]) -> set[str]:
    """The values that may be no more than a truth value, whatever else they may be."""
    truths = {match[1] for line in lines if (match := _TRUTH.match(line))}
    makers = [(match[1], line) for line in lines if (match := _MAY_KEEP.match(line))] if truths else []
    count = -1
    while count != len(truths):
        count = len(truths)
        truths |= {name for name, line in makers if not truths.isdisjoint(_NAME.findall(line))}
    return truths


def _selected(conversion: re.Match[str]) -> str:
    """The conversion of a comparison, as a select."""
    number_if_true = "-1.0" if conversion["operation"] == "sitofp" else "1.0"
    numbers = [f"{conversion['float']} {_constant(conversion, number)}" for number in (number_if_true, "0.0")]
    condition = f"{conversion['type']} {conversion['value']}"
    return f"{conversion['before']}select {condition}, {', '.join(numbers)}{conversion['after']}"


def _constant(conversion: re.Match[str], number: str) -> str:
    is_vector = conversion["float"].startswith("<")
    return f"splat ({conversion['element']} {number})" if is_vector else number


def _of_bits(choice: re.Match[str], name: str) -> Iterator[str]:
    """The lines of a select of two constants that chooses between their bits."""
    bits = f"{choice['count'] or ''}{_WORD}{choice['end']}"
    chosen = [f"{bits} bitcast ({choice['type']} {choice[side]} to {bits})" for side in ("yes", "no")]
    yield f"  {name}.bits = select {choice['condition']}, {', '.join(chosen)}"
    yield f"{choice['before']}bitcast {bits} {name}.bits to {choice['type']}{choice['after']}"


def _passed_on(conversion: re.Match[str], name: str) -> Iterator[str]:
    """The lines of a conversion whose operand ptxas does not see through."""
    operation, kind, value = conversion["operation"], conversion["type"], conversion["value"]
    if kind != _WORD:
        extend = "sext" if operation == "sitofp" else "zext"
        yield f"  {name}.wide = {extend} {kind} {value} to {_WORD}"
        value = f"{name}.wide"
    yield f"  {name} = {_AS_IT_IS.format(value=value)}"
    opaque = f"{_WORD} {name}"
    if operation == "bitcast" and kind != _WORD:
        yield f"  {name}.narrow = trunc {_WORD} {name} to {kind}"
        opaque = f"{kind} {name}.narrow"
    yield f"{conversion['before']}{operation} {opaque} to {conversion['float']}{conversion['after']}"
