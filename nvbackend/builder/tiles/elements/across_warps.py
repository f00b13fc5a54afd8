"""Rows and columns of a tile combined over the threads that share them: lanes by shuffles, warps by shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterable

from nvbackend.builder.ops.combine import Combine
from nvbackend.builder.ops.words import keep, kept, stored_type
from nvbackend.builder.tiles.elements.held import Held
from nvbackend.builder.tiles.elements.rules import ROWS
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.intrinsics.row.types import s32

AXES = ("row", "column")


def over_threads(
    held: Held, axis: int, combine: Combine, values: Iterable[Value], call: str, barrier: Operand | None
) -> list[Value]:
    """Each of `values`, a thread's of its rows (axis 0) or columns (1), combined over all threads that share it.

    Raises elements.lanes, cta.threads, cta.group.
    """
    own = [_over_lanes(held, axis, combine, value) for value in values]
    if held.ownership.in_lanes(axis):
        return own
    starts = held.ownership.spread(axis)
    if starts is None:
        ROWS.fail(axis=AXES[axis], tile=held)
    return _over_warps(held, axis, combine, own, starts, call, barrier)


def _over_lanes(held: Held, axis: int, combine: Combine, value: Value) -> Value:
    for bit in held.ownership.lanes(axis):
        (value,) = combine((value,), (held.k.warp.shuffle(value, "bfly", bit),))
    return value


def _over_warps(
    held: Held,
    axis: int,
    combine: Combine,
    values: list[Value],
    starts: tuple[int, ...],
    call: str,
    barrier: Operand | None,
) -> list[Value]:
    """Parts of rows that begin at `starts`, the first at 0, are a line of shared memory each, with a cell a row."""
    k, core, threads = held.k, held.core, len(held.ownership.firsts)
    is_whole = barrier is None and threads == core.threads
    group = k.groups.of(call, None if is_whole else threads, barrier)
    element, rows = stored_type(values[0].type), held.ownership.shape[axis]
    step = math.gcd(*starts)
    lines = [start // step for start in starts]
    cells = group.area(element.bytes_for((lines[-1] + 1) * rows)).cast(element)
    indices = held.indices(axis)
    first = as_value(core, held.first(1 - axis), s32)
    group.sync()  # the cells may still be read by threads that have not left an earlier call
    others = sum(held.ownership.lanes(axis))
    with k.if_((k.thread_id("linear") & others) == 0):
        line = cells + first // step * rows
        for index, value in zip(indices, values, strict=True):
            keep(core, line + index, value)
    group.sync()
    made = []
    for index, value in zip(indices, values, strict=True):
        parts = [(kept((cells + line * rows + index).load()[0], value.type),) for line in lines]
        result, *rest = parts
        for part in rest:
            (combined,) = combine(result, part)
            result = (combined,)
        made.append(result[0])
    return made
