"""Every row there is, family by family."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain

from nvbackend.intrinsics import spellings
from nvbackend.intrinsics.arithmetic import conversions, floats, integers, packed
from nvbackend.intrinsics.copy import (
    async_store,
    cache_control,
    cp_async,
    load_store,
    matrix_move,
    multimem,
    tcgen05_memory,
    tcgen05_registers,
    tensormap,
    tma_bulk,
    tma_tensor,
)
from nvbackend.intrinsics.mma import mma, tcgen05, wgmma, wmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import (
    atomics,
    cluster,
    launch_control,
    mbarrier,
    mbarrier_phases,
    register_budget,
    special_registers,
    traps,
    warp,
)
from nvbackend.intrinsics.sync import barriers as sync

FAMILIES: dict[str, Callable[[], Iterator[Row]]] = {
    "floats": floats.rows,
    "integers": integers.rows,
    "packed": packed.rows,
    "wgmma": wgmma.rows,
    "wmma": wmma.rows,
    "mma": mma.rows,
    "matrix_move": matrix_move.rows,
    "tcgen05": tcgen05.rows,
    "tcgen05_memory": lambda: chain(tcgen05_memory.rows(), tcgen05_registers.rows()),
    "tma": lambda: chain(tma_tensor.rows(), tma_bulk.rows(), tensormap.rows()),
    "mbarrier": mbarrier.rows,
    "mbarrier_phases": mbarrier_phases.rows,
    "cp_async": cp_async.rows,
    "async_store": async_store.rows,
    "cache_control": cache_control.rows,
    "load_store": load_store.rows,
    "multimem": multimem.rows,
    "launch_control": launch_control.rows,
    "conversions": conversions.rows,
    "atomics": atomics.rows,
    "cluster": cluster.rows,
    "sync": sync.rows,
    "warp": warp.rows,
    "register_budget": register_budget.rows,
    "special_registers": special_registers.rows,
    "traps": traps.rows,
    "spellings": spellings.rows,
}
"""The modules' names and what gives their rows. A new family is one line."""

_OPERATIONS = frozenset({"ldmatrix", "stmatrix", "movmatrix", "convert"})
"""The other families that rows of these modules say they are of."""


def is_of_own_family(row: Row) -> bool:
    """Whether the row's family is one of nvbackend's, and not of a user's own."""
    return row.family in FAMILIES or row.family in _OPERATIONS


def lacks_axes(row: Row) -> bool:
    """Whether the row says that it is of one of nvbackend's families, of which each row has axes, and it has none."""
    if row.axes or not is_of_own_family(row):
        return False
    return not any(each.family == row.family and not each.axes for each in rows())


def rows() -> Iterator[Row]:
    """Every row of every family."""
    for family in FAMILIES.values():
        yield from _rows_of(family)


@cache
def _rows_of(family: Callable[[], Iterator[Row]]) -> tuple[Row, ...]:
    return tuple(family())
