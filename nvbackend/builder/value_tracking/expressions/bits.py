"""What the bits of a value are, as far as its arithmetic shows: constants, or exclusive-ors of run-time bits.

Read off the LLVM IR that the builder emits. The constant part of a descriptor made by hand, and the swizzle of an
address, are both seen in it.
"""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

from llvmlite import ir

Form: TypeAlias = "frozenset[tuple[object, int]] | None"
"""The exclusive-or of these bits, each a value and a number of a bit; `_SET` is 1. None where a bit is none such."""

_SET = ("1", 0)
ZERO: frozenset[tuple[object, int]] = frozenset()
ONE: frozenset[tuple[object, int]] = frozenset({_SET})
_BASE_BITS = 10
"""An allocation's base is taken to be a multiple of 1024: what lies elsewhere is told by the rules on alignment."""
_DEPTH = 48
"""Operations that a bit is followed back over."""
_REGISTERS = "llvm.nvvm.read.ptx.sreg."
_FIRST_CHUNK_BIT, _CHUNK_BITS, _ROW_SHIFT = 4, 3, 3
"""A swizzle changes up to three bits, from the chunk of 16 bytes on, by those three above (PTX ISA 5.5.7)."""
_FIRST_SPAN = 32


class Bits:
    """The bits of the values of one function. What was found is kept."""

    def __init__(self) -> None:
        self._found: dict[tuple[ir.Value, int], Form] = {}
        self._carries: dict[ir.Value, list[Form]] = {}

    def at(self, value: ir.Value, bit: int, depth: int = _DEPTH) -> Form:
        """Bit number `bit` of an integer `value`."""
        if bit < 0 or bit >= _width(value):
            return ZERO
        number = _number(value)
        if number is not None:
            return ONE if number >> bit & 1 else ZERO
        if not isinstance(value, ir.Instruction):
            return ZERO if isinstance(value, ir.Constant) and bit < _BASE_BITS else frozenset({(value, bit)})
        if not depth:
            return None
        key = value, bit
        if key not in self._found:
            self._found[key] = self._operation(value, bit, depth - 1)
        return self._found[key]

    def known(self, value: ir.Value) -> tuple[int, int]:
        """The bits of `value` that are constants, as a mask, and what they are."""
        mask = constant = 0
        for bit in range(_width(value)):
            form = self.at(value, bit)
            if form is not None and form <= ONE:
                mask |= 1 << bit
                constant |= len(form) << bit
        return mask, constant

    def swizzle(self, address: ir.Value) -> int | None:
        """The span in bytes of the swizzle that `address` was made with; None where there is none, or who knows which.

        Each bit of the chunk is then the exclusive-or of something and of the bit three above it.
        """
        changed: list[bool] = []
        for bit in range(_FIRST_CHUNK_BIT, _FIRST_CHUNK_BIT + _CHUNK_BITS):
            chunk, row = self.at(address, bit), self.at(address, bit + _ROW_SHIFT)
            found = _is_changed(chunk, row)
            if found is None or (not changed and not found):
                return None
            changed.append(found)
        count = sum(changed)
        below = ((self.at(address, bit), self.at(address, bit + _ROW_SHIFT)) for bit in range(_FIRST_CHUNK_BIT))
        plain = all(_is_plain(low) and (row is None or row <= ONE or not row <= low) for low, row in below)
        return _FIRST_SPAN << count - 1 if plain and all(changed[:count]) else None

    def _operation(self, value: ir.Instruction, bit: int, depth: int) -> Form:
        name = value.opname
        if isinstance(value, ir.CallInstr):
            called = str(getattr(value.callee, "name", ""))
            return frozenset({(called if called.startswith(_REGISTERS) else value, bit)})
        if name in ("zext", "trunc", "sext"):
            inside = value.operands[0]
            last = _width(inside) - 1
            return self.at(inside, min(bit, last) if name == "sext" else bit, depth)
        if name in ("and", "or", "xor"):
            left, right = (self.at(one, bit, depth) for one in value.operands)
            return _xor(left, right) if name == "xor" else _either(left, right, ONE if name == "or" else ZERO)
        if name in ("add", "sub"):
            return self._sum(value, bit, depth)
        if name in ("shl", "lshr", "ashr", "mul", "urem", "udiv"):
            return self._by_constant(value, bit, depth)
        return frozenset({(value, bit)})

    def _by_constant(self, value: ir.Instruction, bit: int, depth: int) -> Form:
        """A bit of a shift, or of a product, quotient or rest by a power of two."""
        left, right = value.operands
        if value.opname == "mul" and _number(right) is None:
            left, right = right, left
        number = _number(right)
        if number is None or number < 0:
            return frozenset({(value, bit)})
        if value.opname not in ("shl", "lshr", "ashr"):
            shift = (number & -number).bit_length() - 1
            if number != 1 << max(shift, 0):
                return ZERO if value.opname == "mul" and bit < shift else frozenset({(value, bit)})
        else:
            shift = number
        if value.opname == "urem":
            return self.at(left, bit, depth) if bit < shift else ZERO
        if value.opname == "ashr":
            return self.at(left, min(bit + shift, _width(left) - 1), depth)
        return self.at(left, bit - shift if value.opname in ("shl", "mul") else bit + shift, depth)

    def _sum(self, value: ir.Instruction, bit: int, depth: int) -> Form:
        left, right = value.operands
        negated = value.opname == "sub"
        carries = self._carries.setdefault(value, [ONE if negated else ZERO])

        def terms(place: int) -> tuple[Form, Form]:
            other = self.at(right, place, depth)
            return self.at(left, place, depth), _xor(other, ONE) if negated else other

        while len(carries) <= bit:
            one, other = terms(len(carries) - 1)
            carries.append(_majority(one, other, carries[-1]))
        one, other = terms(bit)
        return _xor(_xor(one, other), carries[bit])


def _is_changed(chunk: Form, row: Form) -> bool | None:
    """Whether a bit of the chunk has a bit of the row in it; None where that is not known."""
    if chunk is None or row is None or row <= ONE or not _is_plain(row):
        return None
    row, chunk = row - ONE, chunk - ONE
    if row <= chunk:
        return True
    return False if _is_plain(chunk) else None


def _is_plain(form: Form) -> TypeGuard[frozenset[tuple[object, int]]]:
    """Whether it is a constant or one run-time bit, and no exclusive-or of several."""
    return form is not None and len(form - ONE) <= 1


def _xor(left: Form, right: Form) -> Form:
    return None if left is None or right is None else left ^ right


def _either(left: Form, right: Form, ruling: frozenset[tuple[object, int]]) -> Form:
    """Of two bits the `ruling` one where one is, else the one that is not the other constant, if that is known."""
    if ruling in (left, right):
        return ruling
    neutral = ONE ^ ruling
    if left in (neutral, right):
        return right
    return left if right == neutral else None


def _majority(one: Form, other: Form, third: Form) -> Form:
    """What two of the three are, which is the carry of a sum; None where that is not known."""
    for first, second in ((one, other), (one, third), (other, third)):
        if first is not None and first == second:
            return first
    return None


def _number(value: ir.Value) -> int | None:
    return value.constant if isinstance(value, ir.Constant) and type(value.constant) is int else None


def _width(value: ir.Value) -> int:
    return value.type.width if isinstance(value.type, ir.IntType) else 0
