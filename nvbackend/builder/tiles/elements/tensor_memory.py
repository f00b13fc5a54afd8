"""Tiles in tensor memory, loaded by four warps as elements with coordinates, or stored: threads have parts of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.ops.matrix.tensor_memory import TensorLoad, TmemColumns
from nvbackend.builder.tiles.coordinates import Cut
from nvbackend.builder.tiles.elements.held import Held
from nvbackend.builder.tiles.elements.tile_values import TileValues
from nvbackend.builder.values.accumulator import halves
from nvbackend.builder.values.values import Value
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import ElementType, u16, u32
from nvbackend.isel.machine.tensor_memory_uses import LANE_SHIFT
from nvbackend.layout import AnyLayout, ComposedLayout, Layout, composition, make_layout, size
from nvbackend.tiled import Partition
from nvbackend.tiled.lanes import LoadedLanes

_QUARTERS = WARPGROUP_SIZE // WARP_SIZE
_MOST_COLUMNS = 128
"""Columns of one load."""


def load_lanes(
    k: FunctionBuilder, accumulators: TmemColumns | Value, lanes: LoadedLanes, element: ElementType
) -> TileValues:
    """What `lanes` says of the accumulators, of `element`, one to a column of 32 bits."""
    lane = _first_lane(k)
    loads = [_load(k, accumulators, lane, part, lanes.split, element) for run in lanes.runs for part in _parts(*run)]
    k.tcgen05.wait_ld(*(load for load, _ in loads))
    values = [value for load, is_packed in loads for value in _elements(load, element, is_packed=is_packed)]
    thread = k.thread_id("linear") % WARPGROUP_SIZE
    held = Held(k, lanes.ownership, thread, _part_of(thread, lanes.places), (*map(size, lanes.places.modes[1:]), 1))
    return TileValues(held, values)


def _load(
    k: FunctionBuilder,
    accumulators: TmemColumns | Value,
    lane: Value,
    columns: tuple[int, int],
    split: int | None,
    element: ElementType,
) -> tuple[TensorLoad, bool]:
    """The load of (first, count) columns of a thread, and whether a register has two of them."""
    start, count = columns
    place = _place(accumulators, lane, start, count + (split or 0))
    shape = _shape(split)
    is_packed = element.bits < u32.bits and count > 1
    registers = count // 2 if is_packed else count
    return k.tcgen05.ld(place, shape, registers, pack=is_packed, half_split=split or 0), is_packed


def store_lanes(
    k: FunctionBuilder, columns: TmemColumns | Value, lanes: LoadedLanes, registers: Sequence[Value]
) -> None:
    """Write a thread's `registers` where `lanes`, which counts elements, has them, and wait for the stores."""
    count = sum(length for _, length in lanes.runs)
    in_column = count // len(registers)
    words = [register if register.type is u32 else register.bitcast(u32) for register in registers]
    lane, split, done = _first_lane(k), (lanes.split or 0) // in_column, 0
    for first, length in lanes.runs:
        for start, wide in _parts(first // in_column, length // in_column):
            place = _place(columns, lane, start, wide + split)
            k.tcgen05.st(place, _shape(lanes.split), words[done : done + wide], half_split=split)
            done += wide
    k.tcgen05.wait_st()


def _first_lane(k: FunctionBuilder) -> Value:
    """The first lane that the warp reaches."""
    return (k.warp_id() % _QUARTERS * WARP_SIZE).to(u32)


def _shape(split: int | None) -> str:
    return "32x32b" if split is None else "16x32bx2"


def _place(columns: TmemColumns | Value, lane: Value, start: int, width: int) -> Value:
    """The address of column `start`, and of `lane`; `width` columns are used from there."""
    if isinstance(columns, TmemColumns):
        return columns.columns(start, width).lanes(lane).address
    return columns + (lane << LANE_SHIFT) + start


def _elements(load: TensorLoad, element: ElementType, *, is_packed: bool) -> list[Value]:
    if is_packed:
        return [half for register in load.values for half in halves(register)]
    if element.bits < u32.bits:
        return [register.to(u16).bitcast(element) for register in load.values]
    return [value if element is u32 else value.bitcast(element) for value in load.values]


def _parts(first: int, columns: int) -> Iterator[tuple[int, int]]:
    """(first column, columns) of loads of powers of two."""
    while columns:
        count = min(_MOST_COLUMNS, 1 << columns.bit_length() - 1)
        yield first, count
        first, columns = first + count, columns - count


def _part_of(thread: Value, places: Layout) -> Cut:
    """What cuts a thread's part out of a tile: ((values), steps of them, 1)."""

    def cut(layout: AnyLayout) -> Partition:
        plain = layout.layout_b if isinstance(layout, ComposedLayout) else layout
        dealt = composition(plain, places)
        assert isinstance(dealt, Layout)
        kept, start = dealt.slice_and_offset((thread, None, None))
        part = make_layout(*kept.modes, Layout(1))
        if isinstance(layout, ComposedLayout):
            return Partition(dataclasses.replace(layout, layout_b=part), start)
        return Partition(part, start)

    return cut
