"""Accumulators in tensor memory, loaded as elements with coordinates: a row for each thread of four warps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.ops.matrix.tensor_memory import TmemColumns
from nvbackend.builder.tiles.coordinates import Cut
from nvbackend.builder.tiles.elements.held import Held
from nvbackend.builder.tiles.elements.tile_values import TileValues
from nvbackend.builder.values.values import Value
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import ElementType, u32
from nvbackend.isel.machine.tensor_memory_uses import LANE_SHIFT
from nvbackend.layout import AnyLayout, ComposedLayout, Layout
from nvbackend.tiled import Partition
from nvbackend.tiled.ownership import ownership_of_lanes

ROWS = WARPGROUP_SIZE
"""Lanes of tensor memory, of which each thread of a warpgroup reads one."""
_MOST_COLUMNS = 128
"""Columns of one load."""


def load_rows(
    k: FunctionBuilder, accumulators: TmemColumns | Value, first: int, columns: int, element: ElementType
) -> TileValues:
    """`columns` columns from `first` on, of `element`: thread t of four warps has those of lane t."""
    loads = []
    lane = (k.warp_id() % (ROWS // WARP_SIZE) * WARP_SIZE).to(u32)
    for start, count in _parts(first, columns):
        if isinstance(accumulators, TmemColumns):
            place = accumulators.columns(start, count).lanes(lane).address
        else:
            place = accumulators + (lane << LANE_SHIFT) + start
        loads.append(k.tcgen05.ld(place, "32x32b", count))
    k.tcgen05.wait_ld(*loads)
    values = [value if element is u32 else value.bitcast(element) for load in loads for value in load.values]
    thread = k.thread_id("linear") % ROWS
    held = Held(k, ownership_of_lanes(ROWS, columns), thread, _row_of(thread), (columns, 1, 1))
    return TileValues(held, values)


def _parts(first: int, columns: int) -> Iterator[tuple[int, int]]:
    """(first column, columns) of loads of powers of two."""
    while columns:
        count = min(_MOST_COLUMNS, 1 << columns.bit_length() - 1)
        yield first, count
        first, columns = first + count, columns - count


def _row_of(thread: Value) -> Cut:
    """What cuts a thread's row out of a tile: ((columns), 1, 1)."""

    def cut(layout: AnyLayout) -> Partition:
        plain = layout.layout_b if isinstance(layout, ComposedLayout) else layout
        kept, start = plain.slice_and_offset((thread, None))
        row = Layout((kept.shape, 1, 1), (kept.stride, 0, 0))
        if isinstance(layout, ComposedLayout):
            return Partition(dataclasses.replace(layout, layout_b=row), start)
        return Partition(row, start)

    return cut
