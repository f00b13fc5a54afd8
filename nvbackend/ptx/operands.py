"""Reading operands and constant expressions. PTX ISA 4.5 (Constants), 4.6 and 6 (Instruction Operands)."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import Final

from nvbackend.ptx.reader import Reader, integer_value
from nvbackend.ptx.syntax import Address, Arguments, Float, Integer, Name, Negated, Operand, Pair, Position, Sum, Vector

AN_OPERAND: Final = "an operand"
_INTEGER_BITS = 64

_UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": lambda value: int(not value),
}
_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "|": (1, operator.or_),
    "^": (2, operator.xor),
    "&": (3, operator.and_),
    "<<": (4, lambda value, count: value << (count % _INTEGER_BITS)),
    ">>": (4, lambda value, count: value >> (count % _INTEGER_BITS)),
    "+": (5, operator.add),
    "-": (5, operator.sub),
    "*": (6, operator.mul),
}
"""How tightly each operator of a constant expression binds, and what it does."""


def operand(reader: Reader) -> Operand:
    """An operand of an instruction: also a pair of destinations such as `%r1|%p1`."""
    position = reader.position
    first = _single(reader)
    return Pair(first, _single(reader), position=position) if reader.skips("|") else first


def _single(reader: Reader) -> Operand:
    position = reader.position
    token = reader.next
    if token.kind == "name":
        return _symbol(reader)
    if token.kind == "symbol":
        if token.text == "[":
            return _address(reader)
        if token.text == "{":
            reader.take()
            return Vector(operands(reader, "}"), position=position)
        if token.text == "(":
            reader.take()
            return Arguments(operands(reader, ")"), position=position)
        if token.text == "!" and reader.after_next.kind == "name":
            reader.take()
            return Negated(Name(reader.name(), position=position), position=position)
    return constant(reader)


def operands(reader: Reader, closing: str) -> tuple[Operand, ...]:
    """The operands up to `closing`, which is read too."""
    taken: list[Operand] = []
    if reader.skips(closing):
        return ()
    with reader.nested():
        taken.append(operand(reader))
        while not reader.skips(closing):
            if not reader.skips(","):
                reader.fail(f"',' or {closing!r}")
            taken.append(operand(reader))
    return tuple(taken)


def _symbol(reader: Reader) -> Operand:
    """A name, or a symbol's address with an offset: `buffer`, `buffer+16`, `generic(buffer)+16`."""
    position = reader.position
    text = reader.name(AN_OPERAND)
    generic = text == "generic" and reader.skips("(")
    if generic:
        text = reader.name("the name of a variable")
        reader.must(")")
    offset = _offset(reader)
    if generic or offset is not None:
        return Sum(Name(text, position=position), offset or 0, generic, position=position)
    return Name(text, position=position)


def _offset(reader: Reader) -> int | None:
    """The bytes added to what was read before, or None."""
    if reader.skips("+"):
        return integer(reader)
    return -integer(reader) if reader.skips("-") else None


def _address(reader: Reader) -> Address:
    position = reader.position
    reader.must("[")
    base: Name | Integer
    if reader.next.kind == "name":
        base = Name(reader.name(), position=position)
        offset = _offset(reader) or 0
    else:
        base, offset = Integer(integer(reader), position=position), 0
    coordinates = None
    if reader.skips(","):
        place = reader.position
        reader.must("{")
        coordinates = Vector(operands(reader, "}"), position=place)
    reader.must("]")
    return Address(base, offset, coordinates, position=position)


def constant(reader: Reader) -> Integer | Float:
    """A number: `0f3F800000`, `-1.5`, or an integer expression, which is evaluated."""
    position = reader.position
    negative = reader.sees("-") and reader.after_next.kind == "float"
    if negative:
        reader.take()
    if reader.next.kind == "float":
        return _float(reader.take().text, negative, position)
    if reader.next.kind not in ("integer", "symbol"):
        reader.fail(AN_OPERAND)
    unsigned = reader.next.text.endswith("U")
    return Integer(integer(reader), unsigned, position=position)


def _float(text: str, negative: bool, position: Position) -> Float:
    """A constant in decimal has 64 bits (PTX ISA 4.5.2)."""
    if text[:2] in ("0f", "0F"):
        bits, width = int(text[2:], 16), 32
    elif text[:2] in ("0d", "0D"):
        bits, width = int(text[2:], 16), 64
    else:
        bits, width = struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64
    return Float(bits ^ (1 << (width - 1)) if negative else bits, width, position=position)


def integer(reader: Reader, tightest: int = 0) -> int:
    """An integer expression whose operators bind tighter than `tightest`, evaluated."""
    value = _factor(reader)
    while reader.next.text in _BINARY and _BINARY[reader.next.text][0] > tightest:
        binding, apply = _BINARY[reader.take().text]
        value = apply(value, integer(reader, binding))
    return value


def _factor(reader: Reader) -> int:
    if reader.next.text in _UNARY and reader.next.kind == "symbol":
        with reader.nested():
            return _UNARY[reader.take().text](_factor(reader))
    if reader.skips("("):
        with reader.nested():
            value = integer(reader)
        reader.must(")")
        return value
    return integer_value(reader.must_be("integer", AN_OPERAND).text)
