"""Known bits: a value's bits from its arithmetic, the swizzle of an address, and divisors.

A bit is a constant or an exclusive-or of run-time bits, from the LLVM IR that the builder emits. Both the constant part
of a descriptor made by hand and the swizzle of an address show in the bits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TypeAlias, TypeGuard

from llvmlite import ir

Form: TypeAlias = "frozenset[tuple[object, int]] | None"
"""The exclusive-or of these bits, each a value and a bit number; `_SET` is 1. None for any other bit."""

_SET = ("1", 0)
ZERO: frozenset[tuple[object, int]] = frozenset()
ONE: frozenset[tuple[object, int]] = frozenset({_SET})
_BASE_BITS = 10
"""An allocation's base counts as a multiple of 1024: the alignment rules report any other."""
_DEPTH = 48
"""Operations through which a bit is traced."""
_COUNTS, _COUNT_BITS = ("popc.", "clz."), 7
"""Instructions that count up to 64, and the bits of that number."""
FIXED = tuple(
    f"llvm.nvvm.read.ptx.sreg.{name}"
    for name in ("tid.", "ntid.", "ctaid.", "nctaid.", "laneid", "lanemask.", "cluster", "ncluster")
)
"""Special registers that do not change while a thread runs (PTX ISA 10)."""
_FIRST_CHUNK_BIT, _CHUNK_BITS, _ROW_SHIFT = 4, 3, 3
"""A swizzle changes up to three bits, from the chunk of 16 bytes on, by those three above (PTX ISA 5.5.7)."""
_FIRST_SPAN = 32


class Bits:
    """The known bits of one function's values, cached."""

    def __init__(self) -> None:
        self._found: dict[tuple[ir.Value, int], Form] = {}
        self._carries: dict[ir.Value, list[Form]] = {}

    def at(self, value: ir.Value, bit: int, depth: int = _DEPTH) -> Form:
        """Bit number `bit` of an integer `value`."""
        if not isinstance(value, ir.Instruction):
            return _of_constant(value, bit)
        if not 0 <= bit < _width(value):
            return ZERO
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
        """The span in bytes of the swizzle that `address` was made with; None if it has no swizzle or it is unknown.

        Each bit of the chunk is then the exclusive-or of something and of the bit three above it.
        """
        changed: list[bool] = []
        for bit in range(_FIRST_CHUNK_BIT, _FIRST_CHUNK_BIT + _CHUNK_BITS):
            chunk, row = self.at(address, bit), self.at(address, bit + _ROW_SHIFT)
            fit = _is_changed(chunk, row)
            if fit is None or (not changed and not fit):
                return None
            changed.append(fit)
        count = sum(changed)
        below = ((self.at(address, bit), self.at(address, bit + _ROW_SHIFT)) for bit in range(_FIRST_CHUNK_BIT))
        plain = all(_is_plain(low) and (row is None or row <= ONE or not row <= low) for low, row in below)
        return _FIRST_SPAN << count - 1 if plain and all(changed[:count]) else None

    def _operation(self, value: ir.Instruction, bit: int, depth: int) -> Form:
        name = value.opname
        if isinstance(value, ir.CallInstr):
            return _called(value, bit)
        if name in ("zext", "trunc", "sext"):
            inside = value.operands[0]
            last = _width(inside) - 1
            return self.at(inside, min(bit, last) if name == "sext" else bit, depth)
        if name in ("and", "or", "xor"):
            left, right = (self.at(operand, bit, depth) for operand in value.operands)
            return _xor(left, right) if name == "xor" else _either(left, right, ONE if name == "or" else ZERO)
        if name in ("add", "sub"):
            return self._sum(value, bit, depth)
        if name in ("shl", "lshr", "ashr", "mul", "urem", "udiv"):
            return self._by_constant(value, bit, depth)
        return frozenset({(value, bit)})

    def _by_constant(self, value: ir.Instruction, bit: int, depth: int) -> Form:
        """A bit of a shift, or of a product, quotient or remainder by a power of two."""
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
        number = None if negated else _number(right)
        if number is not None and not number & (2 << bit) - 1:
            return self.at(left, bit, depth)  # nothing is added to this bit and those below it
        if (carries := self._carries.get(value)) is None:
            added = (number & -number).bit_length() if number else 1  # nothing is added below, so nothing carried
            carries = self._carries[value] = [ONE if negated else ZERO] * added

        def terms(place: int) -> tuple[Form, Form]:
            b = self.at(right, place, depth)
            return self.at(left, place, depth), _xor(b, ONE) if negated else b

        while len(carries) <= bit:
            a, b = terms(len(carries) - 1)
            carries.append(_majority(a, b, carries[-1]))
        a, b = terms(bit)
        return _xor(_xor(a, b), carries[bit])


def _of_constant(value: ir.Value, bit: int) -> Form:
    """A bit of a value that no instruction makes: a constant, an address, a parameter."""
    if not 0 <= bit < _width(value):
        return ZERO
    number = _number(value)
    if number is not None:
        return ONE if number >> bit & 1 else ZERO
    return ZERO if isinstance(value, ir.Constant) and bit < _BASE_BITS else frozenset({(value, bit)})


def _called(value: ir.CallInstr, bit: int) -> Form:
    if isinstance(value.callee, ir.InlineAsm):
        is_count = str(value.callee.asm).startswith(_COUNTS)
        return ZERO if is_count and bit >= _COUNT_BITS else frozenset({(value, bit)})
    called = str(value.callee.name)
    return frozenset({(called if called.startswith(FIXED) else value, bit)})


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


def _majority(a: Form, b: Form, c: Form) -> Form:
    """What two of the three are, which is the carry of a sum; None where that is not known."""
    for first, second in ((a, b), (a, c), (b, c)):
        if first == second:
            return first
    return None


def _number(value: ir.Value) -> int | None:
    return value.constant if isinstance(value, ir.Constant) and type(value.constant) is int else None


def _width(value: ir.Value) -> int:
    return value.type.width if isinstance(value.type, ir.IntType) else 0


_STEPS = 12
"""How many operations back a divisor is traced."""
_LARGEST = 1 << 64
_CASTS = ("zext", "sext", "trunc")
_SHUFFLE = "llvm.nvvm.shfl.sync"
_SHUFFLED = 1
"""The argument of a shuffle that is the value."""


class Multiples:
    """Divisors of one function's values, cached."""

    def __init__(self) -> None:
        self._found: dict[ir.Value, int] = {}
        self._counters: dict[ir.Value, int] = {}
        """Divisors of loop counters, by their slots."""
        self._promised: dict[ir.Value, int] = {}
        """Of what each value is promised to be a multiple."""

    def promise(self, value: ir.Value, number: int) -> None:
        """`value` is a multiple of `number`, as the author says."""
        self._promised[value] = math.lcm(self._promised.get(value, 1), number)

    def count(self, slot: ir.Value, start: ir.Value, step: ir.Value) -> None:
        """A loop counts in `slot`, from `start` on."""
        self._counters[slot] = math.gcd(self.divisor(start), self.divisor(step))

    def divisor(self, value: ir.Value, depth: int = _STEPS) -> int:
        """A number that `value` certainly is a multiple of, 0 for the number 0.

        Numbers wrap around at their bits, which powers of two outlast; of others it is assumed that they do not.
        """
        if isinstance(value, ir.Constant):
            return abs(value.constant) if type(value.constant) is int else 1
        if value in self._promised:
            return self._promised[value]
        if not isinstance(value, ir.Instruction) or not depth:
            return 1
        if value not in self._found:
            self._found[value] = _bounded(self._operation(value, depth - 1))
        return self._found[value]

    def _operation(self, value: ir.Instruction, depth: int) -> int:
        name = value.opname
        if name in _CASTS:
            return self.divisor(value.operands[0], depth)
        if name == "select":
            return math.gcd(*(self.divisor(operand, depth) for operand in value.operands[1:]))
        if name in _SHIFTS or name in _DIVISIONS:
            return self._by_constant(value, depth)
        if name in _TWO:
            return _TWO[name](*(self.divisor(operand, depth) for operand in value.operands))
        return self._of_another(value, depth)

    def _of_another(self, value: ir.Instruction, depth: int) -> int:
        """Of a loop's counter, or of another lane's number."""
        if isinstance(value, ir.LoadInstr):
            return self._counters.get(value.operands[0], 1)
        if isinstance(value, ir.CallInstr) and str(getattr(value.callee, "name", "")).startswith(_SHUFFLE):
            return self.divisor(value.args[_SHUFFLED], depth)
        return 1

    def _by_constant(self, value: ir.Instruction, depth: int) -> int:
        """What a shift, quotient or rest is a multiple of, by a number that is known.

        A number that wrapped is divided by a power of two without a rest; by others, it may leave one.
        """
        known, number = self.divisor(value.operands[0], depth), _number(value.operands[1])
        if value.opname in _SHIFTS and number is not None and not 0 <= number < value.type.width:
            return 1  # the result is not defined
        if value.opname == "shl":
            return known << (number or 0)
        if number is None:
            return 1
        if value.opname in _RESTS:
            return math.gcd(known, number)
        by = 1 << number if value.opname in _SHIFTS else abs(number)
        return known // by if by == _lowest(by) != 0 and known % by == 0 else 1


def _bounded(divisor: int) -> int:
    """A divisor that fits 64 bits; products of products may have more."""
    return divisor if divisor < _LARGEST else min(_lowest(divisor), _LARGEST // 2)


def _masked(left: int, right: int) -> int:
    """A bit that is clear in one side of an `and` is clear in the result."""
    return math.lcm(_lowest(left), _lowest(right))


def _lowest(number: int) -> int:
    return number & -number


_SHIFTS = ("shl", "lshr", "ashr")
_DIVISIONS = ("sdiv", "udiv", "srem", "urem")
_RESTS = ("srem", "urem")
_TWO: dict[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("add", "sub"), math.gcd),
    "mul": operator.mul,
    "and": _masked,
    **dict.fromkeys(("or", "xor"), lambda left, right: math.gcd(_lowest(left), _lowest(right))),
}
"""What the result of an operation is a multiple of, given that of its operands."""
