"""The general families: those whose rows stand for themselves, with no request between."""

from __future__ import annotations

from nvbackend.intrinsics import spellings
from nvbackend.intrinsics.arithmetic import conversions, floats, integers, packed
from nvbackend.intrinsics.copy import (
    async_store,
    cache_control,
    cp_async,
    load_store,
    matrix_move,
    multimem,
    tensormap,
    tma_bulk,
    tma_tensor,
)
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

FAMILIES = (
    *(async_store, atomics, conversions, cache_control, cluster, cp_async, launch_control, load_store, matrix_move),
    *(mbarrier, mbarrier_phases, traps),
    *(multimem, register_budget, special_registers, spellings, sync, tensormap, tma_bulk, tma_tensor, warp),
    *(floats, integers, packed),
)
"""Modules that each have `rows()`."""
