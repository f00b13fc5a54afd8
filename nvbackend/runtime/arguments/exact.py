"""Integer instructions of PTX on numbers that are known twice: the bits of a register, and what they are meant to be.

The exact number is what the program would have if its registers had no end.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

_WHOLE = (1 << 64) - 1
_MOST_OPERANDS = 3
"""Of the instructions that are known here: a shuffle has four."""
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}


class Number(NamedTuple):
    """The bits of a register, of 64 at most, and the exact number, None where it is not known."""

    bits: int
    exact: int | None


def of_constant(number: int | None) -> Number:
    """A number that is what it is meant to be."""
    assert number is not None
    return Number(number & _WHOLE, number)


def converted(parts: Sequence[str], source: Number) -> Number | None:
    """cvt between integers; None for anything else."""
    to, of = _width(parts[-2]), _width(parts[-1])
    if len(parts) != len(("cvt", "to", "of")) or to is None or of is None:
        return None
    number = _read(source.bits, parts[-1], of)
    return Number(number & (1 << to) - 1, _meant(source.exact, parts[-1], of))


def computed(parts: Sequence[str], values: Sequence[Number]) -> Number | None:
    """What an instruction makes of its operands; None for one that is not known here."""
    kind = parts[-1]
    width = _width(kind)
    if width is None or len(values) > _MOST_OPERANDS:
        return None
    wide = 2 * width if "wide" in parts else width
    widths = [width, width, wide][: len(values)]
    numbers = [_read(each.bits, kind, each_width) for each, each_width in zip(values, widths, strict=True)]
    if parts[0] == "setp":
        is_plain = len(parts) == len(("setp", "lt", "s32")) and parts[1] in _COMPARISONS
        return of_constant(int(_COMPARISONS[parts[1]](*numbers))) if is_plain else None
    if parts[0] in ("min", "max") and len(parts) == len(("min", "s32")):
        choose = min if parts[0] == "min" else max
        return values[numbers.index(choose(numbers))]
    meant = [_meant(each.exact, kind, each_width) for each, each_width in zip(values, widths, strict=True)]
    real, exact = _result(parts, numbers), None
    if real is None:
        return None
    if None not in meant:
        exact = _result(parts, [number for number in meant if number is not None])
    return Number(real & (1 << wide) - 1, exact)


def _result(parts: Sequence[str], numbers: Sequence[int]) -> int | None:
    operation = _OPERATIONS.get((parts[0], ".".join(parts[1:-1])))
    return None if operation is None else operation(*numbers)


def _shifted(number: int, by: int) -> int | None:
    return number << by if 0 <= by < _MOST_BITS else None


def _divided(number: int, by: int) -> int | None:
    if by == 0:
        return None
    return abs(number) // abs(by) * (1 if (number < 0) == (by < 0) else -1)


def _rest(number: int, by: int) -> int | None:
    quotient = _divided(number, by)
    return None if quotient is None else number - by * quotient


def _added(a: int, b: int, c: int) -> int:
    return a * b + c


_MOST_BITS = 64
_OPERATIONS: dict[tuple[str, str], Callable[..., int | None]] = {
    **{(name, ""): of for name, of in (("mov", operator.pos), ("neg", operator.neg), ("not", operator.invert))},
    **{(name, ""): of for name, of in (("add", operator.add), ("sub", operator.sub))},
    **{(name, ""): of for name, of in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor))},
    **{(name, ""): of for name, of in (("shl", _shifted), ("div", _divided), ("rem", _rest))},
    ("shr", ""): lambda number, by: number >> by if 0 <= by < _MOST_BITS else None,
    **{("mul", form): operator.mul for form in ("lo", "wide")},
    **{("mad", form): _added for form in ("lo", "wide")},
}
"""By opcode and form: what makes a number of the operands."""


def _meant(exact: int | None, kind: str, width: int) -> int | None:
    """The exact number as an operand of the type: a negative one in an unsigned register is what its bits are."""
    is_large = exact is not None and kind[0] == "u" and -(1 << width - 1) <= exact < 0
    return exact + (1 << width) if is_large and exact is not None else exact


def _read(bits: int, kind: str, width: int) -> int:
    """The bits as a number of the type."""
    bits &= (1 << width) - 1
    return bits - (1 << width) if kind[0] == "s" and bits >> width - 1 else bits


def _width(kind: str) -> int | None:
    if kind == "pred":
        return 1
    return int(kind[1:]) if kind[0] in "bsu" and kind[1:] in ("8", "16", "32", "64") else None
