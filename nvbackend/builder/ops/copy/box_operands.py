"""What a copy of a box says of its operands: how many there are, its bytes in shared memory, a reduction's type."""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.copy.map_elements import ELEMENT_TYPE_OF, ELEMENT_TYPES
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


def box_extent(kind: TensorMap, mode: str, place: str) -> dict[str, int]:
    """The bytes of a box in shared memory, at the operand `place`; nothing where the map does not say them."""
    if mode in _FOUR_ROWS:
        rows, columns = kind.box
        return {place: _FOUR_ROWS[mode] * kind.element.bytes_for(columns)} if rows == 1 else {}
    return {} if mode == _FIXED_PIXELS else {place: kind.bytes}


def reduced_element(row: Row, element: ElementType) -> dict[str, int]:
    """The element type of a reduction, as a fact."""
    if row.axes["direction"] != "reduce":
        return {}
    return {facts.ELEMENT: ELEMENT_TYPES.index(ELEMENT_TYPE_OF[element.name])}


def check_counts(row: Row, **operands: Sequence[object]) -> None:
    """Raises tma.box-operands if an operand does not have as many registers as `row` takes."""
    for name, registers in operands.items():
        wanted = row.operand(name).count if row.has_operand(name) else 0
        if len(registers) != wanted:
            PLACE.fail(instruction=row.ptx, wanted=wanted, name=name, given=len(registers))
