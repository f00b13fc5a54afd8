"""Python's format strings as C's, which vprintf takes: `"x = {:.3f}"` is `"x = %.3f"`.

CUDA C++ Programming Guide, Formatted Output: at most 32 arguments, each promoted as in C.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import NoReturn

from nvbackend.builder.ops.debug.rules import FORMAT
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, f32, f64, tf32

MOST_ARGUMENTS = 32
_SPEC = r"(?P<align>[<>])?(?P<sign>[+\- ])?(?P<form>#)?(?P<zero>0)?(?P<width>\d+)?(?P<digits>\.\d+)?(?P<kind>\w)?"
_SURROGATE = "[\ud800-\udfff]"
MOST_WIDTH = 1000
"""The greatest width and precision of a form."""
_SHOWN = 20
_OF_INTEGERS, _OF_FLOATS = "dxXo", "eEfFgG"
_ENOUGH = {f32: ".9", tf32: ".9", f64: ".17"}
"""The digits that tell the numbers of a type apart, where C's own six are too few (IEEE 754, conversions)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Letters, and after them the argument of number `argument` by `spec`; None at the end of a text."""

    letters: str
    argument: int | None = None
    spec: str = ""


def check_letters(call: str, text: str, written: str) -> None:
    """Raises debug.format for letters of `written`, a part of what a call prints, that no bytes of a text are for."""
    lone = re.search(_SURROGATE, written)
    if "\0" in written:
        problem, advice = "the text has a zero byte, which ends it", "leave the zero byte out"
    elif lone is not None:
        problem = f"the text has {lone[0]!a}, half of a character, which has no bytes in UTF-8"
        advice = "write the whole character, or leave it out"
    else:
        return
    FORMAT.fail(call=call, text=text, problem=problem, advice=advice)


def pieces(call: str, text: str, count: int) -> list[Piece]:
    """The text of a call with `count` values in its parts. Raises debug.format."""

    def fail(problem: str, advice: str) -> NoReturn:
        FORMAT.fail(call=call, text=text, problem=problem, advice=advice)

    check_letters(call, text, text)
    parsed, number = [], 0
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:
        fail("a brace is open, or closed without one", "write {} for a value, and {{ and }} for braces")
    for letters, name, form, conversion in parts:
        if name is None:
            parsed.append(Piece(letters))
            continue
        spec = form or ""
        if conversion or "{" in spec:
            fail(f"{{{name}{'!' + conversion if conversion else ''}}} is not a form of a value", "write {} or {:.3f}")
        if any(float(digits) > MOST_WIDTH for digits in re.findall(r"\d+", spec)):
            problem = f"{{:{spec[:_SHOWN]}}} asks for more than {MOST_WIDTH} characters"
            fail(problem, "write a width or precision that fits a line")
        if name and not name.isdecimal():
            fail(f"{{{name}}} names a value, and values have numbers", "write {}, or {0} for the first value")
        parsed.append(Piece(letters, int(name) if name else number, spec))
        number += 1
    if 0 < sum(name == "" for _, name, _, _ in parts) < number:
        fail("it has places with and without numbers", "write {} for every value in their order, or {0} for each")
    used = {piece.argument for piece in parsed} - {None}
    wanted = max((place + 1 for place in used if place is not None), default=0)
    if wanted > count:
        fail(f"it asks for {wanted} value(s) and gets {count}", "give a value for each {}")
    if len(used) < count:
        fail(f"it shows {len(used)} of {count} values", "write {} in the text for each value")
    if number > MOST_ARGUMENTS:
        fail(f"it has {number} values, and vprintf takes {MOST_ARGUMENTS}", "print them in two calls")
    return parsed


def c_format(call: str, text: str, parts: Sequence[Piece], kinds: Sequence[ElementType | str]) -> str:
    """The format of C, of values of `kinds`: an element type, or the text of what is known when the kernel is built."""
    written = []
    for part in parts:
        written.append(part.letters.replace("%", "%%"))
        if part.argument is not None:
            kind = kinds[part.argument]
            written.append(kind.replace("%", "%%") if isinstance(kind, str) else _of_value(call, text, part.spec, kind))
    return "".join(written)


def _of_value(call: str, text: str, spec: str, kind: ElementType) -> str:
    match = re.fullmatch(_SPEC, spec)
    letters = _OF_FLOATS if is_float(kind) else _OF_INTEGERS
    if match is None or (match["kind"] or letters[0]) not in letters:
        known = ", ".join(letters)
        advice = (
            f"write {{}}, or a width, digits and one of {known}, such as {{:{'8.3f' if is_float(kind) else '04x'}}}"
        )
        FORMAT.fail(call=call, text=text, problem=f"{{:{spec}}} is not a form of a value of {kind}", advice=advice)
    flags = ("-" if match["align"] == "<" else "") + (match["sign"] or "").strip("-") + (match["form"] or "")
    flags += (match["zero"] or "") + (match["width"] or "")
    if is_float(kind):
        digits = match["digits"] or ("" if match["kind"] else _ENOUGH.get(kind, ""))
        return f"%{flags}{digits}{match['kind'] or 'g'}"
    size = "ll" if kind.bits > 32 else ""
    return f"%{flags}{match['digits'] or ''}{size}{_letter(match['kind'], kind)}"


def _letter(kind: str | None, element: ElementType) -> str:
    return kind if kind in ("x", "X", "o") else "d" if element.is_signed else "u"


def is_float(kind: ElementType) -> bool:
    """Whether values of a type are printed as numbers with a fraction; scale factors are."""
    return not kind.is_integer and kind.bits > 1
