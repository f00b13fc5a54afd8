"""What `nvbackend explain` says of a tcgen05.mma's operands in tensor memory: which cells they are."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.cli.text import paragraph
from nvbackend.intrinsics.maps.rows import CellMap, cell_maps
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.select.tcgen05.request import request_of
from nvbackend.isel.select.tcgen05.shapes import legal_m

_SHOWN = (0, 1, 8, 16, 32, 64, 128)
_A_LINE = 5


def told_cells(row: Row) -> Iterator[str]:
    """The places of some elements of each operand in tensor memory, for each M that the row's kind has."""
    if row.opcode not in (tcgen05.MMA, tcgen05.MMA_WS):
        return
    legal = legal_m(request_of(row))
    for one in cell_maps(row):
        if one.m in legal:
            yield "\n"
            yield from _told(one)


def _told(given: CellMap) -> Iterator[str]:
    yield paragraph(f"{given.operand} with M = {given.m}: {given.tile}")
    rows, columns = given.extents
    places = [(row, 0) for row in _shown(rows)] + [(0, column) for column in _shown(columns)[1:]]
    cells = [f"{_pair(one)} at {_pair(given.position(*one))}" for one in places]
    for start in range(0, len(cells), _A_LINE):
        yield "  " + "  ".join(cells[start : start + _A_LINE]) + "\n"
    if given.note:
        yield f"  {given.note}\n"


def _shown(extent: int) -> list[int]:
    return sorted({one for one in _SHOWN if one < extent} | {extent - 1})


def _pair(numbers: tuple[int, ...]) -> str:
    return f"({','.join(map(str, numbers))})"
