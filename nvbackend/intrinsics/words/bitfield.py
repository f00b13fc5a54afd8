"""Packed words: a declared list of fields from which encoding, decoding and the documentation's table derive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache

from nvbackend.diagnostics import Diagnostic, Rule, raise_all
from nvbackend.diagnostics.classes.dataclass import dataclass

_MATRIX_DESCRIPTOR = "PTX ISA 9.7.15.5.1.2.2 (matrix descriptor format)"

RANGE = Rule(
    id="descriptor.range",
    message="{word}: {field} = {given} ({meaning}) is not {allowed}",
    fix="use {allowed}",
    why="The bits that do not fit land in the neighbouring field: another address, stride or format, and no fault.",
    reference=_MATRIX_DESCRIPTOR,
)
ALIGNMENT = Rule(
    id="descriptor.alignment",
    message="{word}: {field} = {given} ({meaning}) is not a multiple of {unit}",
    fix="use {below} or {above}",
    why="The field counts in larger units: the low bits are dropped, and the hardware reads from another place.",
    reference=_MATRIX_DESCRIPTOR,
)
RESERVED_BITS = Rule(
    id="descriptor.reserved-bits",
    message="{word}: {given} has reserved bits set: {bits}",
    fix="clear them ({cleared}) if they are scratch; if they are meant, this word has another layout",
    why="The hardware does not ignore reserved bits: operands are fetched wrongly, with no fault and no warning.",
    reference=_MATRIX_DESCRIPTOR,
)


@lru_cache(maxsize=64)
def _citing(rule: Rule, reference: str) -> Rule:
    """The rule as a word of another source breaks it: each word names the document that it comes from."""
    return replace(rule, reference=reference)


@dataclass(frozen=True, slots=True)
class Field:
    """A field: bits `low` to `low + width - 1` of the word.

    Values are given and returned in the user's unit; the bits hold `(value - least) / unit`, so `unit` is 16 where an
    address in bytes is stored shifted right by 4, and `least` is 1 where an extent is stored less one. `values` are
    the only legal values where not all are.
    """

    name: str
    low: int
    width: int
    meaning: str
    unit: int = 1
    values: tuple[int, ...] | None = None
    least: int = 0

    @property
    def high(self) -> int:
        """The highest bit, which belongs to it."""
        return self.low + self.width - 1

    @property
    def mask(self) -> int:
        """The field's bits, in place."""
        return ((1 << self.width) - 1) << self.low

    @property
    def highest(self) -> int:
        """The largest value that fits, in the user's unit."""
        return ((1 << self.width) - 1) * self.unit + self.least

    @property
    def allowed(self) -> str:
        """The legal values, in words."""
        if self.values is not None:
            return " or ".join(str(value) for value in self.values)
        return f"{self.least} to {self.highest}" + (f" by {self.unit}" if self.unit > 1 else "")

    def place(self, value: int) -> int:
        """`value`, which must be legal, as bits in place."""
        return (value - self.least) // self.unit << self.low

    def code(self, word: int) -> int:
        """What `word` holds in this field's bits."""
        return (word & self.mask) >> self.low

    def extract(self, word: int) -> int:
        """The value that `word` holds in this field, in the user's unit."""
        return self.code(word) * self.unit + self.least

    def check(self, word: PackedWord, value: int) -> Iterator[Diagnostic]:
        """What keeps `value` out of this field of `word`."""
        legal = self.least <= value <= self.highest if self.values is None else value in self.values
        if not legal or not isinstance(value, int):
            yield _citing(RANGE, word.reference).diagnose(
                word=word.name, field=self.name, given=value, meaning=self.meaning, allowed=self.allowed
            )
        elif rest := (value - self.least) % self.unit:
            below = value - rest
            yield _citing(ALIGNMENT, word.reference).diagnose(
                word=word.name,
                field=self.name,
                given=value,
                meaning=self.meaning,
                unit=self.unit,
                below=below,
                above=below + self.unit,
            )


@dataclass(frozen=True)
class PackedWord:
    """A word of `bits` bits made of `fields`. Every bit that no field has is reserved.

    `reference` is the document that defines it, which its diagnostics name.
    """

    name: str
    bits: int
    fields: tuple[Field, ...]
    reference: str = _MATRIX_DESCRIPTOR

    def __post_init__(self) -> None:
        taken = 0
        for field in self.fields:
            if taken & field.mask or field.high >= self.bits:
                raise ValueError(f"{self.name}: field {field.name} overlaps another or leaves the word")
            taken |= field.mask

    @cached_property
    def field_mask(self) -> int:
        """The bits that belong to fields."""
        return sum(field.mask for field in self.fields)

    @cached_property
    def reserved_mask(self) -> int:
        """The bits that belong to none."""
        return (1 << self.bits) - 1 & ~self.field_mask

    def field(self, name: str) -> Field:
        """The field called `name` (KeyError without one)."""
        return self._named[name]

    @cached_property
    def _named(self) -> Mapping[str, Field]:
        return {field.name: field for field in self.fields}

    def check(self, values: Mapping[str, int]) -> list[Diagnostic]:
        """What is wrong with these values, in the order they are given (KeyError for an unknown name)."""
        return [fault for name, value in values.items() for fault in self.field(name).check(self, value)]

    def encode(self, values: Mapping[str, int], *, into: int = 0) -> int:
        """The word with these values; the other fields keep what `into` has, and reserved bits are cleared.

        Raises, for all fields together, descriptor.range and descriptor.alignment.
        """
        held = {field.name: field.extract(into) for field in self.fields}
        raise_all(self.check({**held, **values}))
        return sum(self.field(name).place(value) for name, value in {**held, **values}.items())

    def decode(self, word: int) -> dict[str, int]:
        """The fields of `word`, by name in order.

        Raises descriptor.range for a number that does not fit the word or an illegal value of a field, and
        descriptor.reserved-bits for a reserved bit that is set.
        """
        if not 0 <= word < 1 << self.bits:
            allowed = f"an unsigned number of {self.bits} bits"
            _citing(RANGE, self.reference).fail(
                word=self.name, field="the word", given=hex(word), meaning="all fields", allowed=allowed
            )
        if stray := word & self.reserved_mask:
            _citing(RESERVED_BITS, self.reference).fail(
                word=self.name, given=hex(word), bits=bit_ranges(stray), cleared=hex(word & self.field_mask)
            )
        values = {field.name: field.extract(word) for field in self.fields}
        raise_all(self.check(values))
        return values

    def table(self) -> str:
        """The layout as a Markdown table, reserved bits left out."""
        lines = ["| bits | field | meaning | values |", "| --- | --- | --- | --- |"]
        for field in sorted(self.fields, key=lambda field: field.low):
            bits = f"{field.low}-{field.high}" if field.width > 1 else str(field.low)
            lines.append(f"| {bits} | {field.name} | {field.meaning} | {field.allowed} |")
        return "\n".join(lines)


def bit_ranges(mask: int) -> str:
    """The set bits of `mask` in words: 0x3800 gives "11-13"."""
    ranges: list[str] = []
    position = 0
    while mask >> position:
        if not mask >> position & 1:
            position += 1
            continue
        first = position
        while mask >> position & 1:
            position += 1
        ranges.append(str(first) if position == first + 1 else f"{first}-{position - 1}")
    return ", ".join(ranges)
