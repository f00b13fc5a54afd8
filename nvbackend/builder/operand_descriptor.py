"""The descriptor of a matrix operand in shared memory, with what is known of it."""

from __future__ import annotations

from typing import Any

from nvbackend.builder.memory import Address
from nvbackend.builder.values import Arithmetic, Value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.smem_descriptor import ADDRESS_MASK, ADDRESS_SHIFT, UNIT
from nvbackend.intrinsics.smem_layout import Major
from nvbackend.intrinsics.types import ElementType, u64


@user_facing
class OperandDescriptor(Arithmetic):
    """A descriptor (u64) that stands for its word wherever one is taken: the base of a `DescriptorIterator`.

    `descriptor + units` is that of the operand `units` of 16 bytes further on; only the address moves, so that `word`,
    all the other bits, stays known. The operand begins at `address`, has `span` bytes from there to the last one that
    it reads, and begins `inside` a row of `row` bytes, whose chunks the swizzle exchanges.
    """

    __slots__ = ("address", "element", "inside", "major", "row", "span", "word")

    def __init__(
        self, address: Address, word: int, element: ElementType, major: Major, *, span: int, row: int, inside: int = 0
    ) -> None:
        self.address = address
        self.word = word
        self.element = element
        self.major = major
        self.span = span
        self.row = row
        self.inside = inside % row

    @property
    def reach(self) -> int:
        """Bytes from the address to where the rows end in which the operand is."""
        return -(-(self.inside + self.span) // self.row) * self.row - self.inside

    def _value(self) -> Value:
        address, k = self.address.bytes, self.address._k
        word = ((address & ADDRESS_MASK) >> ADDRESS_SHIFT).to(u64) | self.word
        k._places.is_descriptor(word.ir, k._places.of_address(address.ir))
        return word

    def __add__(self, units: Any) -> Any:
        known = isinstance(units, int)
        align = None if known else UNIT
        return OperandDescriptor(
            self.address.byte_offset(units * UNIT, align=align),
            self.word,
            self.element,
            self.major,
            span=self.span,
            row=self.row,
            inside=self.inside + (units * UNIT if known else 0),
        )

    def __repr__(self) -> str:
        return f"<descriptor of a {self.major} operand of {self.element} at {self.address}>"
