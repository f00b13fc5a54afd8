"""The descriptor of an operand in shared memory, and those of a tile: CuTe's tCrA and tCrB, of a place in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.lower.pointers import descriptor_of
from nvbackend.builder.values.values import Arithmetic, Value
from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, u64
from nvbackend.intrinsics.words.smem_descriptor import (
    ADDRESS_MASK,
    ADDRESS_SHIFT,
    CORE_ROWS,
    UNIT,
    Major,
    advance_units,
)
from nvbackend.layout import ComposedLayout, DescriptorIterator, Layout, cosize
from nvbackend.layout.descriptors.rules import PATTERN
from nvbackend.tiled import Fragment, Partition, TiledMMA
from nvbackend.tiled.operand import MmaOperand

_NUMBER, _WORD = ir.IntType(32), ir.IntType(64)


@user_facing
class OperandDescriptor(Arithmetic):
    """A descriptor (u64), usable wherever its word is: the base of a `DescriptorIterator`.

    `descriptor + units` is that of the operand `units` of 16 bytes further on; only the address moves, so that `word`,
    all the other bits, stays known. The operand begins at `address`, has `span` bytes from there to the last one that
    it reads, and begins `inside` bytes after where a pattern of the swizzle begins, whose rows have `row` bytes, of
    which it has `width` in the first.
    """

    __slots__ = ("address", "element", "inside", "major", "padded", "row", "span", "width", "word")

    def __init__(
        self,
        address: Address,
        word: int,
        element: ElementType,
        major: Major,
        *,
        span: int,
        row: int,
        inside: int = 0,
        width: int = UNIT,
        padded: bool = False,
    ) -> None:
        self.address = address
        self.word = word
        self.element = element
        self.major = major
        self.padded = padded
        self.span = span
        self.row = row
        self.inside = inside
        self.width = width

    @property
    def reach(self) -> int:
        """Bytes from the address to where the rows end in which the operand is."""
        place = self.inside % self.row
        return -(-(place + self.span) // self.row) * self.row - place

    def advance(self, bytes: int) -> OperandDescriptor:
        """The descriptor `bytes` further on, or back where negative.

        Raises descriptor.advance-unit, and descriptor.pattern where the swizzle exchanges chunks of other rows.
        """
        advanced: OperandDescriptor = self + advance_units(bytes)
        return advanced

    def _value(self) -> Value:
        self.address._check_own("a descriptor")
        k = self.address._k
        word = descriptor_of(k.llvm, _terms(self.address), self.word, UNIT, self._packed)
        if self.address._place is not None:
            k.places.descriptors[word] = self.address._place
        return k.wrap(word, u64)

    def _packed(self) -> ir.Value:
        """The word, with the address in it."""
        k, address = self.address._k, self.address.bytes.ir
        start = k.llvm.lshr(k.llvm.and_(address, _NUMBER(ADDRESS_MASK)), _NUMBER(ADDRESS_SHIFT))
        word = k.llvm.or_(k.llvm.zext(start, _WORD), _WORD(self.word))
        place = k.places.of_address(address)
        if place is not None:
            k.places.descriptors[word] = place
        return word

    def __add__(self, units: Any) -> Any:
        known = isinstance(units, int)
        inside = self.inside + (units * UNIT if known else 0)
        self._check_pattern(inside)
        align = None if known else UNIT
        return OperandDescriptor(
            self.address.steps(units, UNIT, align=align),
            self.word,
            self.element,
            self.major,
            span=self.span,
            row=self.row,
            inside=inside,
            width=self.width,
            padded=self.padded,
        )

    def _check_pattern(self, inside: int) -> None:
        """Raises descriptor.pattern where an operand that begins there would be read through another part of it."""
        if self.row == UNIT:
            return
        period = CORE_ROWS * self.row
        place, first = inside % self.row, inside % period // self.row
        if first:
            problem = "starts in the middle of it"
        elif place + self.width > self.row:
            problem = f"leaves its row of {self.row} bytes after {self.row - place} of {self.width}"
        else:
            return
        swizzle = f"{self.row} B"
        PATTERN.fail(offset=inside, swizzle=swizzle, problem=problem, period=period, row=self.row)

    def __repr__(self) -> str:
        return f"<descriptor of a {self.major} operand of {self.element} at {self.address}>"


def _terms(address: Address) -> list[ir.Value]:
    """What the number of an address is the sum of."""
    address._k.check_scope(address._base)
    return [address._base] if address._offset is None else [address._base, address._offset.ir]


@user_facing
@dataclass(frozen=True)
class TileFragment:
    """The descriptors of a tile, one for each instruction's operand: `fragment[0, m, k]`.

    `layout` is (1, MMA_M or MMA_N, MMA_K), in units of 16 bytes from the first operand. `base` is the descriptor of
    that; its word is computed where it is used.
    """

    fragment: Fragment
    base: OperandDescriptor

    @property
    def layout(self) -> Layout:
        """From the coordinate of an operand to how far it lies from the first."""
        return self.fragment.layout

    @property
    def descriptors(self) -> DescriptorIterator:
        """The descriptors as CuTe's DescriptorIterator: sliced with `_`, called with a coordinate."""
        return DescriptorIterator(self.base, self.layout, type(self.fragment.descriptors().base))

    def __call__(self, *coordinate: Any) -> OperandDescriptor:
        """The descriptor of one operand, as a u64. Raises descriptor.index."""
        descriptor: OperandDescriptor = self.base + self.layout(*coordinate)
        return descriptor

    def __str__(self) -> str:
        return str(self.descriptors)


def tile_fragment(k: Core, tiled_mma: TiledMMA, operand: MmaOperand, tile: SharedTile, part: Partition) -> TileFragment:
    """The fragment of `part` of a tile, with the descriptor that follows from the layout.

    Raises tiled-mma.fragment, layout-algebra.recast, and what `nvbackend.layout.smem_desc` raises.
    """
    whole = tiled_mma.make_fragment_A(part) if operand is MmaOperand.A else tiled_mma.make_fragment_B(part)
    start, fragment = whole.offset, replace(whole, offset=0)
    descriptor = fragment.descriptors().base
    size = tile.layout._bytes_for
    assert isinstance(part.layout, ComposedLayout)
    along = tiled_mma.atom_extents(operand)[tile.layout.major is Major.K]
    known = isinstance(start, int)
    base = OperandDescriptor(
        own(k, tile.address),
        descriptor.template_word,
        tile.layout.element,
        tile.layout.major,
        span=size(cosize(part.plain[0])),
        row=tile.layout.pitch,
        width=min(tile.layout.pitch, size(along)),
        padded=tile.layout.padded,
    )
    return TileFragment(fragment, base + start if not known or start * UNIT else base)
