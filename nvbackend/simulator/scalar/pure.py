"""A pure instruction: arrays of bits in, arrays of bits out; and how its spelling is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass

Bits = NDArray[Any]
"""The raw bits of a register, one element a lane: bool, uint8 to uint64, or (lanes, 2) uint64 for b128."""
Call = Callable[..., tuple[Bits, ...]]


@dataclass(frozen=True, slots=True)
class Pure:
    """What an instruction computes from its operands alone.

    `results` and `operands` are the PTX types of destinations and sources, in PTX order, a vector's elements one by
    one; "cc", always the last, is the carry flag, a bool that PTX does not write down. There may be more results than
    destinations: what has no destination is dropped, such as the second predicate of setp. A result narrower than its
    register is extended by its type's sign. The last `optional` operands may be missing, as the third of min.

    `call` takes an array for each operand, all of one shape and contiguous, and makes new ones. Floats draw NumPy's
    warnings: the caller does so under `np.errstate(all="ignore")`, entered once.
    """

    results: tuple[str, ...]
    operands: tuple[str, ...]
    call: Call
    optional: int = 0


SIGNED: dict[int, Any] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
UNSIGNED: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
INTEGERS = {f"{kind}{bits}": bits for kind in "us" for bits in (8, 16, 32, 64)}
"""The integer types and their bits."""
BYTES = {f"b{bits}": bits for bits in (8, 16, 32, 64)}
"""The untyped ones."""


class Unknown(Exception):
    """No instruction has this spelling."""


class Spelling:
    """The modifiers of an opcode, read from the first to the last."""

    def __init__(self, parts: tuple[str, ...]) -> None:
        self.name = parts[0]
        self._parts = parts
        self._next = 1

    def take(self, *choices: str) -> str:
        """The next modifier if it is one of these, else nothing: it is optional."""
        if self._next < len(self._parts) and self._parts[self._next] in choices:
            self._next += 1
            return self._parts[self._next - 1]
        return ""

    def must(self, *choices: str) -> str:
        """The next modifier, which is one of these. Raises Unknown."""
        if not (found := self.take(*choices)):
            raise Unknown
        return found

    def has(self, modifier: str) -> bool:
        """Whether the next modifier is this one; it is read then."""
        return bool(self.take(modifier))

    def ends(self) -> None:
        """Raises Unknown unless all is read."""
        if self._next != len(self._parts):
            raise Unknown

    @property
    def last(self) -> str:
        """The last modifier, usually the type."""
        return self._parts[-1]


def numbers(bits: Bits, kind: str) -> Bits:
    """The integers that these bits are as `kind`, such as s32."""
    return bits.view(SIGNED[8 * bits.dtype.itemsize]) if kind[0] == "s" else bits


def bits_of(values: Bits) -> Bits:
    """The bits of integers or floats."""
    return values.view(UNSIGNED[8 * values.dtype.itemsize])


def limits(kind: str) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    bits = INTEGERS[kind]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
