"""What instructions are given of a tile in shared memory: CuTe's tCrA and tCrB, of a place in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import own
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.matrix.operand_descriptor import OperandDescriptor
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.words.smem_descriptor import UNIT, Major
from nvbackend.layout import ComposedLayout, DescriptorIterator, Layout, cosize
from nvbackend.tiled import Fragment, Partition, TiledMMA
from nvbackend.tiled.operand import MmaOperand


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
        """The descriptor of one operand, a u64 as it stands. Raises descriptor.index."""
        found: OperandDescriptor = self.base + self.layout(*coordinate)
        return found

    def __str__(self) -> str:
        return str(self.descriptors)


def tile_fragment(k: Core, tiled_mma: TiledMMA, operand: MmaOperand, tile: SharedTile, part: Partition) -> TileFragment:
    """The fragment of `part` of a tile, with the descriptor that follows from the layout.

    Raises tiled-mma.fragment, layout-algebra.recast, and what `nvbackend.layout.smem_desc` raises.
    """
    found = tiled_mma.make_fragment_A(part) if operand is MmaOperand.A else tiled_mma.make_fragment_B(part)
    start, fragment = found.offset, replace(found, offset=0)
    descriptor = fragment.descriptors().base
    size = tile.layout.element.bytes_for
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
    )
    return TileFragment(fragment, base + start if not known or start * UNIT else base)
