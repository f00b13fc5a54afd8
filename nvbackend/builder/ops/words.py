"""Values of any type as the 32-bit registers that lanes exchange, and back."""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.variables import select
from nvbackend.builder.values.values import Value, as_value
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, pred, s32, u8, u32, u64

WORD_BITS = 32
MOST_BYTES = 8
"""The bytes of the widest value that threads hand to one another through memory."""


def words_of(k: Core, value: Value) -> list[Value]:
    """The registers of a value, the lowest bits first: one for up to 32 bits, two for 64."""
    element = value.type
    if element is pred:
        return [select(k, value, as_value(k, 1, u32), 0)]
    if element.bits == WORD_BITS:
        return [value if element.is_integer else value.bitcast(s32)]
    if element.bits < WORD_BITS:
        return [value.bitcast(_bits_of(element)).to(u32)]
    bits = value.bitcast(u64)
    return [bits.to(u32), (bits >> WORD_BITS).to(u32)]


def value_of(words: Sequence[Value], element: ElementType) -> Value:
    """The value of `element` in these registers."""
    first, *others = words
    if element is pred:
        return first != 0
    if element.bits == WORD_BITS:
        return first if first.type is element else first.bitcast(element)
    if not others:
        return first.to(_bits_of(element)).bitcast(element)
    (second,) = others
    return (first.to(u64) | second.to(u64) << WORD_BITS).bitcast(element)


def keep(k: Core, cell: Address, value: Value) -> None:
    """Store a value of any type to a cell in memory, of `stored_type`."""
    if value.type is pred:
        cell.store(select(k, value, as_value(k, 1, u8), 0))
    elif value.type.bits < u8.bits:
        cell.store(value.bitcast(_bits_of(value.type)).to(u8))
    else:
        cell.store(value)


def kept(value: Value, element: ElementType) -> Value:
    """The value of `element` that `keep` stored, as it was loaded."""
    if element is pred:
        return value != 0
    return value.to(_bits_of(element)).bitcast(element) if element.bits < u8.bits else value


def stored_type(element: ElementType) -> ElementType:
    """What a cell in memory for a value of `element` holds."""
    return u8 if element is pred or element.bits < u8.bits else element


def _bits_of(element: ElementType) -> ElementType:
    """The integer that has the bits of a narrow type in a register; those of 6 bits have the low ones of a byte."""
    return BY_NAME.get(f"u{element.bits}", u8)
