"""The general families: those whose rows stand for themselves, with no request between."""

from __future__ import annotations

from nvbackend.intrinsics import (
    async_store,
    cache_control,
    cluster,
    cp_async,
    launch_control,
    matrix_move,
    mbarrier,
    mbarrier_phases,
    multimem,
    register_budget,
    special_registers,
    spellings,
    sync,
    tma,
    warp,
)

FAMILIES = (
    *(async_store, cache_control, cluster, cp_async, launch_control, matrix_move, mbarrier, mbarrier_phases),
    *(multimem, register_budget, special_registers, spellings, sync, tma, warp),
)
"""Modules that each have `rows()`."""
