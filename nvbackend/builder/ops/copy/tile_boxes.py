"""How the boxes of a tensor map make a tile of an operand: one matrix of a tensor of any rank, panel by panel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.core.parameters import TensorMapParameter
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.copy.map_modes import check_mode
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import raise_all
from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.row.types import s32
from nvbackend.intrinsics.words.smem_descriptor import Major


@dataclass(frozen=True, slots=True)
class TileBoxes:
    """A tile and the boxes that fill it.

    A box has the tile's contiguous dimension innermost, the other one along `outer`, and the extent 1 along all else: a
    matrix of a batch, or the rows of one head.
    """

    tile: SharedTile
    map: TensorMapParameter
    outer: int
    """The map's dimension, outermost first, of the tile's strided dimension."""

    @property
    def extent(self) -> int:
        """The box's extent along the tile's strided dimension, in elements."""
        return self.map.type.box[self.outer]

    @property
    def a_panel(self) -> int:
        """How many boxes make a panel of the tile."""
        return self.tile.layout.panel_box[0] // self.extent

    @property
    def alignment(self) -> int:
        """The alignment of the addresses of all boxes, in bytes."""
        layout = self.tile.layout
        steps = [layout.panel_bytes] * (layout.panels > 1) + [self.extent * layout.pitch] * (self.a_panel > 1)
        return math.gcd(self.tile.address.align, *steps)

    def place(self, k: Core, at: Sequence[Operand], panel: int, box: Operand) -> tuple[Address, list[Value]]:
        """Where box number `box` of a panel lies in shared memory, and its coordinates, innermost first.

        `at` has the coordinates of the dimensions of extent 1, outermost first, then the tile's row and column.
        """
        layout, rank = self.tile.layout, self.map.type.rank
        if len(at) != rank:
            rules.TMA_PLACE.fail(name=self.map.name, given=len(at), rank=rank)
        *others, row, column = at
        step = box * self.extent
        inner, outer = (column, row) if layout.major is Major.K else (row, column)
        inner, outer = inner + panel * layout.panel_box[1], outer + step
        coordinates = [inner, *reversed([*others[: self.outer], outer, *others[self.outer :]])]
        address = own(k, self.tile.address).byte_offset(panel * layout.panel_bytes + step * layout.pitch)
        return address, [as_value(k, coordinate, s32) for coordinate in coordinates]


def tile_boxes(tile: SharedTile, tensor_map: TensorMapParameter, call: str, instead: str) -> TileBoxes:
    """The boxes of the map that make the tile, once the two are known to fit `call`.

    Raises tma.map-mode, tma.tile-rank, tma.element, tma.swizzle and tma.box.
    """
    if tensor_map.type.im2col is not None:
        check_mode(tensor_map, tma_tensor.load_tensor(tensor_map.type.rank))
    kind, layout = tensor_map.type, tile.layout
    wide = [dimension for dimension, extent in enumerate(kind.box[:-1]) if extent != 1]
    if kind.rank < len(layout.tma_box) or len(wide) > 1:
        rules.TMA_RANK.fail(
            name=tensor_map.name,
            box=kind.box,
            call=call,
            instead=instead,
            element=layout.element,
            wanted=layout.tma_box,
            swizzle=layout.swizzle.span,
            rank=kind.rank,
        )
    boxes = TileBoxes(tile, tensor_map, *(wide or [kind.rank - 2]))
    along, across = layout.panel_box
    faults = []
    if kind.element is not layout.element:
        faults.append(rules.TMA_ELEMENT.diagnose(name=tensor_map.name, given=kind.element, wanted=layout.element))
    if kind.swizzle != layout.swizzle.span:
        faults.append(rules.TMA_SWIZZLE.diagnose(name=tensor_map.name, given=kind.swizzle, wanted=layout.swizzle.span))
    if kind.box[-1] != across or along % boxes.extent:
        described = f"{layout.rows}x{layout.columns} ({layout.panels} panel(s) of {along}x{across})"
        wanted = _like(kind.box, boxes.outer, layout.tma_box)
        faults.append(rules.TMA_BOX.diagnose(name=tensor_map.name, box=kind.box, tile=described, wanted=wanted))
    raise_all(faults)
    return boxes


def _like(box: Sequence[int], outer: int, wanted: tuple[int, int]) -> tuple[int, ...]:
    """A box of the same rank with the wanted extents."""
    return (*box[:outer], wanted[0], *box[outer + 1 : -1], wanted[1])
