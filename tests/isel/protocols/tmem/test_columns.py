"""Which columns of tensor memory a load or a store touches: as many as the PTX ISA's tables of the shapes say."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError, InstructionDescriptor, KernelBuilder, f16, f32, u32
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.isel.machine.function import MemoryUse
from nvbackend.isel.machine.tensor_memory_uses import tmem_uses
from nvbackend.signature import Parameter, Scalar

PER_REPETITION = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}
"""Columns of 32 bits; PTX ISA 9.7.16.2.3.2."""
ALLOCATED = 128
CASES = [
    (shape, count, pack, 0, count * columns * (2 if pack else 1))
    for shape, columns in PER_REPETITION.items()
    for count in (1, 4, 8)
    for pack in (False, True)
] + [
    ("16x32bx2", count, pack, split, split + count * (2 if pack else 1))
    for count, pack, split in ((1, False, 16), (4, False, 32), (4, True, 100), (2, False, 3))
]


def outside(first: int, shape: str, count: int, pack: bool, split: int, *, store: bool) -> list[str]:
    """The rules that a load, or a store, from column `first` on breaks."""
    k = KernelBuilder("columns", "sm_100a", threads=128)
    try:
        with k.tcgen05.tmem(ALLOCATED) as tmem:
            registers = count * {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}.get(shape, 1)
            if store:
                values = [k.const(0, u32)] * registers
                k.tcgen05.st(tmem + first, shape, values, unpack=pack, half_split=split)
                k.tcgen05.wait_st()
            else:
                k.tcgen05.wait_ld(k.tcgen05.ld(tmem + first, shape, count, pack=pack, half_split=split))
        k.finish()
    except DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]
    return []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize(("shape", "count", "pack", "split", "columns"), CASES)
def test_the_last_column_is_the_last_that_fits(
    shape: str, count: int, pack: bool, split: int, columns: int, store: bool
) -> None:
    last = ALLOCATED - columns
    assert outside(last, shape, count, pack, split, store=store) == []
    assert outside(last + 1, shape, count, pack, split, store=store) == ["tcgen05.bounds"]


@pytest.mark.parametrize("first", [0, 100, 200])
@pytest.mark.parametrize("store", [False, True])
def test_of_a_column_at_run_time_nothing_is_said(first: int, store: bool) -> None:
    """It may be less by any number."""
    k = KernelBuilder("columns", "sm_100a", threads=128, parameters=[Parameter("n", Scalar(u32))])
    with k.tcgen05.tmem(ALLOCATED) as tmem:
        place = tmem + (k.arguments[0] + first)
        if store:
            k.tcgen05.st(place, "32x32b", [k.const(0, u32)] * 64)
            k.tcgen05.wait_st()
        else:
            k.tcgen05.wait_ld(k.tcgen05.ld(place, "32x32b", 64))
    assert [one.rule_id for one in k.finish().diagnostics] == []


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("m", [64, 128, 256])
def test_d_has_as_many_columns_as_n_where_its_rows_fill_all_lanes(stationary: bool, group: int, m: int) -> None:
    """PTX ISA 9.7.16.10.5: 128 rows of one CTA, or 256 of a pair; of weight-stationary ones nothing is said."""
    rows = [
        row
        for row in tcgen05.rows()
        if row.semantics.multiplies and bool(row.axes.get("weight_stationary")) is stationary
        if row.semantics.cta_group == group and row.axes["kind"] == "f16"
    ]
    assert rows or (stationary and group == 2)
    for row in rows:
        described = InstructionDescriptor(kind="f16", m=m, n=96, a=f16, b=f16, d=f32)
        known = not stationary and m == 128 * group
        uses = tmem_uses(row, descriptor=described)
        assert uses["d"] == (MemoryUse.ASYNC_WRITE, 96 if known else None)
        assert uses.get("a", (MemoryUse.ASYNC_READ, 8))[1] == (8 if known or "a" not in uses else None)
        assert {columns for _, columns in tmem_uses(row).values()} == {None}
