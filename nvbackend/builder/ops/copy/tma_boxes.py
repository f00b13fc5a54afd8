"""Checks of a box copy's operands against its tensor map and its instruction."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nvbackend.builder.core.parameters import TensorMapParameter
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.scopes import rules
from nvbackend.diagnostics import Rule, raise_all
from nvbackend.intrinsics.copy import tensormap
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.machine import facts
from nvbackend.signature import TensorMap

_FOUR_ROWS = {"tile::gather4": 4, "tile::scatter4": 4}
"""How many boxes of one row these modes copy."""

_FIXED_PIXELS = "im2col::w::128"
"""The mode that copies 128 pixels, whatever the map says."""

PLACE = Rule(
    id="tma.box-operands",
    message="{instruction} takes {wanted} {name}, not {given}",
    fix="give one coordinate for each dimension, innermost first; im2col also wants its offsets",
    why="The operands would not be those of the instruction.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), tensorCoords and im2colInfo",
)

MAP_MODE = Rule(
    id="tma.map-mode",
    message="{name} is a map {made}, and {instruction} in mode {mode} takes one {wanted}",
    fix="use the mode of the map, or declare the parameter as TensorMap(..., im2col={im2col})",
    why="The map means another thing in the other mode: the copy stops the kernel, or moves other elements.",
    reference="PTX ISA 5.5.3 to 5.5.5 (tiled, im2col and im2col::w modes), 9.7.9 (cp.async.bulk.tensor)",
)

_WIDE_OF_MODE = {"im2col::w": "w", "im2col::w::128": "w128"}


def boxes_a_panel(tile: SharedTile, tensor_map: TensorMapParameter, call: str, instead: str) -> int:
    """How many boxes of the map make one panel of the tile, once the two are known to fit `call`.

    Raises tma.tile-rank, tma.element, tma.swizzle and tma.box.
    """
    kind, layout = tensor_map.type, tile.layout
    if kind.rank != len(layout.tma_box):
        rules.TMA_RANK.fail(
            name=tensor_map.name,
            rank=kind.rank,
            box=kind.box,
            call=call,
            instead=instead,
            element=layout.element,
            wanted=layout.tma_box,
            swizzle=layout.swizzle.span,
        )
    along, across = layout.panel_box
    found = []
    if kind.element is not layout.element:
        found.append(rules.TMA_ELEMENT.diagnose(name=tensor_map.name, given=kind.element, wanted=layout.element))
    if kind.swizzle != layout.swizzle.span:
        found.append(rules.TMA_SWIZZLE.diagnose(name=tensor_map.name, given=kind.swizzle, wanted=layout.swizzle.span))
    if kind.box[1] != across or along % kind.box[0]:
        described = f"{layout.rows}x{layout.columns} ({layout.panels} panel(s) of {along}x{across})"
        found.append(rules.TMA_BOX.diagnose(name=tensor_map.name, box=kind.box, tile=described, wanted=layout.tma_box))
    raise_all(found)
    return along // kind.box[0]


def box_alignment(tile: SharedTile, tensor_map: TensorMapParameter) -> int:
    """The alignment of the addresses of all boxes of a tile."""
    layout, boxes = tile.layout, tile.layout.panel_box[0] // tensor_map.type.box[0]
    steps = [layout.panel_bytes] * (layout.panels > 1) + [tensor_map.type.box[0] * layout.pitch] * (boxes > 1)
    return math.gcd(tile.address.align, *steps)


def box_extent(kind: TensorMap, mode: str, place: str) -> dict[str, int]:
    """The bytes of a box in shared memory, at the operand `place`; nothing where the map does not say them."""
    if mode in _FOUR_ROWS:
        rows, columns = kind.box
        return {place: _FOUR_ROWS[mode] * kind.element.bytes_for(columns)} if rows == 1 else {}
    return {} if mode == _FIXED_PIXELS else {place: kind.bytes}


def reduced_element(row: Row, element: ElementType) -> dict[str, int]:
    """The element type of a reduction, as a fact."""
    name = tensormap.ELEMENT_TYPE_OF.get(element.name)
    if name is None or row.axes["direction"] != "reduce":
        return {}
    return {facts.ELEMENT: tensormap.ELEMENT_TYPES.index(name)}


def check_mode(tensor_map: TensorMapParameter, row: Row) -> None:
    """Raises tma.map-mode where the map was declared for another mode than `row` has."""
    mode, walk = str(row.axes["mode"]), tensor_map.type.im2col
    made = _kind(walk is not None, None if walk is None else walk.wide)
    wanted = _kind(mode.startswith("im2col"), _WIDE_OF_MODE.get(mode))
    if made != wanted:
        im2col = "Im2col(rank, lower, upper, wide)" if mode.startswith("im2col") else None
        MAP_MODE.fail(name=tensor_map.name, made=made, instruction=row.opcode, mode=mode, wanted=wanted, im2col=im2col)


def check_counts(row: Row, **given: Sequence[object]) -> None:
    """Raises tma.box-operands if an operand does not have as many registers as `row` takes."""
    for name, registers in given.items():
        wanted = row.operand(name).count if row.has_operand(name) else 0
        if len(registers) != wanted:
            PLACE.fail(instruction=row.ptx, wanted=wanted, name=name, given=len(registers))


def _kind(im2col: bool, wide: str | None) -> str:
    return f"of pixels along W ({wide!r})" if wide else "of pixels" if im2col else "of boxes"
