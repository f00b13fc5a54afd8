"""Points-to: the allocation of an address and the offset in it, from the program's arithmetic.

It also decodes descriptors that were not made from a layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import count

from llvmlite import ir

from nvbackend.builder.value_tracking.expressions.bits import ZERO, Bits, Multiples
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.words.smem_descriptor import ADDRESS_MASK, ADDRESS_SHIFT, UNIT
from nvbackend.isel.flow.memory_uses import (
    DEFINED_IN,
    PEER_SPACE,
    symbol_part,
    symbol_text,
)
from nvbackend.isel.machine.function import MemoryObject, MemoryTouch, MemoryUse

_ADDRESS_BITS = 32
_FIELD_BITS = (ADDRESS_MASK >> ADDRESS_SHIFT).bit_length()
_DEPTH = 12
"""How many operations back a sum is followed. A value beyond that is a term of its own."""
_STRUCTURAL = {"and": "&", "lshr": ">>>", "ashr": ">>", "urem": "%", "udiv": "/"}
"""Operations with a constant whose results are equal wherever they are written."""


@dataclass(frozen=True, slots=True)
class LinearSum:
    """A linear form: a constant, factors of run-time values by name, and at most one allocation's start."""

    constant: int = 0
    terms: Mapping[str, int] = field(default_factory=dict)
    base: Place | None = None

    def plus(self, other: LinearSum, sign: int = 1) -> LinearSum:
        """The sum of both; at most one may start at an allocation."""
        terms = dict(self.terms)
        for name, factor in other.terms.items():
            terms[name] = terms.get(name, 0) + sign * factor
        return LinearSum(self.constant + sign * other.constant, terms, self.base or other.base)

    def times(self, factor: int) -> LinearSum:
        """Every term times `factor`; it must not start at an allocation."""
        return LinearSum(
            self.constant * factor, {name: coefficient * factor for name, coefficient in self.terms.items()}
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an allocation: `offset` bytes after its start, and the run-time `terms` after that."""

    object: MemoryObject
    offset: int = 0
    terms: Mapping[str, int] = field(default_factory=dict)

    def moved(self, step: LinearSum, unit: int = 1) -> Place:
        """The place `step` units on. Addresses count modulo 2^32, so a step back is a negative number."""
        terms = dict(self.terms)
        for name, factor in step.terms.items():
            terms[name] = _signed(terms.get(name, 0) + factor * unit)
        terms = {name: factor for name, factor in terms.items() if factor}
        return Place(self.object, _signed(self.offset + step.constant * unit), terms)

    def touch(self, use: MemoryUse, operand: str = "", size: int | None = None) -> MemoryTouch:
        """The access of `size` bytes here."""
        return MemoryTouch(self.object, use, operand, self.offset, symbol_text(self.terms), size)


class Places:
    """The places that the addresses and descriptors of one function point to."""

    def __init__(self) -> None:
        self.addresses: dict[ir.Value, Place] = {}
        """The place of each value that is known to be an address."""
        self.descriptors: dict[ir.Value, Place] = {}
        """Where what each descriptor describes starts."""
        self._ids = count(1)
        self._of_peers: dict[int, MemoryObject] = {}
        """Each allocation's counterpart in another CTA, by id."""
        self.bits = Bits()
        self.multiples = Multiples()

    def allocate(
        self, name: str, size: int, part: int, start: tuple[str, int] | None = None, *, space: str = "shared"
    ) -> Place:
        """The start of a new allocation, of `size` bytes in parts of `part`."""
        return Place(MemoryObject(next(self._ids), name, space, size, part, start=start))

    def of_peer(self, place: Place | None) -> Place | None:
        """The same place in the shared memory of another CTA, which is other memory."""
        if place is None or place.object.space == PEER_SPACE:
            return place
        if place.object.id not in self._of_peers:
            own = place.object
            self._of_peers[own.id] = replace(
                own, id=next(self._ids), name=f"{own.name} of a peer", space=PEER_SPACE, twin=own.id
            )
        return replace(place, object=self._of_peers[place.object.id])

    def step(self, value: ir.Value) -> LinearSum:
        """A distance as a linear form."""
        return _sum(value, {}, _DEPTH)

    def of_address(self, value: ir.Value) -> Place | None:
        """The place that a shared address points to; None if unknown."""
        total = _sum(value, self.addresses, _DEPTH)
        return None if total.base is None else total.base.moved(total)

    def of_descriptor(self, value: ir.Value) -> Place | None:
        """The place where a descriptor starts, also after it was advanced; None if unknown."""
        total = _sum(value, self.descriptors, _DEPTH)
        return self._packed(value, _DEPTH) if total.base is None else total.base.moved(total, UNIT)

    def _packed(self, value: ir.Value, depth: int) -> Place | None:
        """The place of a descriptor by how it is packed: an address shifted right, combined with constants by or."""
        if not depth or not isinstance(value, ir.Instruction):
            return None
        if value.opname == "zext":
            return self._packed(value.operands[0], depth - 1)
        if value.opname == "lshr" and _number(value.operands[1]) == ADDRESS_SHIFT:
            inside = value.operands[0]
            masked = isinstance(inside, ir.Instruction) and inside.opname == "and"
            return self.of_address(inside.operands[0] if masked else inside)
        if value.opname in ("or", "add"):
            for part, other in (value.operands, value.operands[::-1]):
                place = self._packed(part, depth - 1)
                if place is not None:
                    return self._beside(place, other, advanced=value.opname == "add")
        return None

    def _beside(self, place: Place, other: ir.Value, *, advanced: bool) -> Place | None:
        """The place after `other` is combined with its address in the word by or, or added to it."""
        if all(self.bits.at(other, bit) == ZERO for bit in range(_FIELD_BITS)):
            return place
        number = _number(other)
        far = not advanced or (number is not None and abs(number) >> _FIELD_BITS)
        return None if far else place.moved(self.step(other), UNIT)


def _sum(value: ir.Value, known: Mapping[ir.Value, Place], depth: int) -> LinearSum:
    """`value` as a linear form, from additions and multiplications by constants; it wraps as they do."""
    if value in known:
        return LinearSum(base=known[value])
    number = _number(value)
    if number is not None:
        return LinearSum(number)
    if depth and isinstance(value, ir.Instruction):
        total = _operation(value, known, depth - 1)
        if total is not None:
            return total
    return LinearSum(terms={_name(value): 1})


def _operation(value: ir.Instruction, known: Mapping[ir.Value, Place], depth: int) -> LinearSum | None:
    """The result of an operation as a linear form; None if it is not linear."""
    if value.opname == "trunc" and value.type.width == _ADDRESS_BITS:
        inside = _sum(value.operands[0], known, depth)
        return inside if inside.base is None else None
    if value.opname not in _SUMS:
        return None
    left, right = (_sum(operand, known, depth) for operand in value.operands)
    if value.opname == "add":
        return left.plus(right) if left.base is None or right.base is None else None
    if value.opname == "sub":
        return left.plus(right, -1) if right.base is None else None
    return _product(left, right, value.type.width if value.opname == "shl" else 0)


_SUMS = ("add", "sub", "mul", "shl")


def _product(left: LinearSum, right: LinearSum, bits: int) -> LinearSum | None:
    """A run-time sum times a constant, or shifted by one where it has `bits`; None for other products."""
    if not bits and not left.terms:
        left, right = right, left
    if left.base is not None or right.base is not None or right.terms:
        return None
    if bits and not 0 <= right.constant < bits:
        return None  # the result of such a shift is not defined
    return left.times(1 << right.constant if bits else right.constant)


def symbol_name(value: ir.Value) -> str:
    """The name of a run-time value in symbols."""
    return symbol_part(_name(value))


def _name(value: ir.Value) -> str:
    """A unique name of a run-time value: its own and that of the block that defines it.

    An operation by a constant has the name of its operand with it, so many of them as a sum is followed back.
    """
    if not isinstance(value, ir.Instruction):
        return str(value.get_reference())
    if value.opname not in _STRUCTURAL:
        return f"{value.get_reference()}{DEFINED_IN}{value.parent.name}"
    around: list[str] = []
    while (
        len(around) < _DEPTH
        and isinstance(value, ir.Instruction)
        and value.opname in _STRUCTURAL
        and (number := _number(value.operands[1])) is not None
    ):
        around.append(f"{_STRUCTURAL[value.opname]}{number})")
        value = value.operands[0]
    block = f"{DEFINED_IN}{value.parent.name}" if isinstance(value, ir.Instruction) else ""
    return "".join(["(" * len(around), value.get_reference(), block, *reversed(around)])


def _number(value: ir.Value) -> int | None:
    return value.constant if isinstance(value, ir.Constant) and type(value.constant) is int else None


def _signed(number: int) -> int:
    """`number` modulo 2^32, from -2^31 on."""
    half = 1 << _ADDRESS_BITS - 1
    return (number + half) % (2 * half) - half


_ADDRESS_FIELD = ADDRESS_MASK >> ADDRESS_SHIFT
_UPPER = (1 << 64) - (1 << 16)
"""What no address reaches, nor the carry of one that is advanced: the word is known where all of this is."""
_STEPS = 16
"""How many run-time advances back a descriptor is followed."""


def word_of(value: ir.Value, bits: Bits, *, whole: bool) -> int | None:
    """The constant bits of a descriptor, without its address unless that is constant too; None if unknown."""
    for _ in range(_STEPS):
        mask, constant = bits.known(value)
        if isinstance(value, ir.Constant):
            return constant if whole or constant & _UPPER else None
        if whole:
            return constant if mask.bit_count() == value.type.width else None
        if not _UPPER & ~mask:
            return constant & ~_ADDRESS_FIELD
        if not isinstance(value, ir.Instruction) or value.opname != "add":
            return None
        made = [operand for operand in value.operands if _is_made(operand, bits)]
        if len(made) != 1:
            return None
        value = made[0]
    return None


def _is_made(value: ir.Value, bits: Bits) -> bool:
    """Whether a summand is the descriptor, not the distance by which it is advanced."""
    if bits.known(value)[1] & _UPPER:
        return True
    advanced = isinstance(value, ir.Instruction) and value.opname == "add"
    return advanced and any(_is_made(operand, bits) for operand in value.operands)
