"""Where a product has its result in tensor memory, by its M: what is read beside it nothing has written.

PTX ISA 9.7.16.10.5 (layouts A to G).
"""

from __future__ import annotations

from itertools import product as every
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, u32
from nvbackend.isel.machine.tensor_memory_uses import cells_of_result
from nvbackend.simulator.tensor.tensor_memory import accumulator
from tests.dry_run.refusals import refusals

N = 64
COLUMNS = SmemLayout(Major.K, SwizzleMode.B128, f16, N, 64)
OUT = nvb.Pointer[u32]
LAYOUTS = {"D of 128": (128, False, N), "F": (64, False, N), "D": (128, True, N), "E": (64, True, N // 2)}
"""By layout: M, whether the weights are stationary, and the columns that are written."""


def bring(k: Any, x: nvb.Address, a: Any, b: Any, full: nvb.Address) -> None:
    """The bytes of both operands, which a thread loads and waits for."""
    k.mbarrier.arrive(full, expect_tx=a.layout.bytes + b.layout.bytes)
    for tile in (a, b):
        k.bulk.load(tile.address, x, tile.layout.bytes, full)
    k.mbarrier.wait(full, 0)


def multiplied(m: int, stationary: bool) -> nvb.KernelDefinition:
    rows = SmemLayout(Major.K, SwizzleMode.B128, f16, m, 64)
    request = nvb.Tcgen05Request("f16", weight_stationary=stationary)
    shape = nvb.InstructionDescriptor(kind="f16", m=m, n=N, a=f16, b=f16, d=f32)

    @nvb.kernel("sm_100a", threads=128)
    def multiplied(k: Any, x: nvb.Pointer(f16, align=16), out: OUT, *, column: int, adds: bool = False) -> None:
        a, b = k.shared_tile(rows, name="a"), k.shared_tile(COLUMNS, name="b")
        full, done = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "done"))
        k.mbarrier.ready()
        with k.tcgen05.tmem(128) as tmem:
            with k.one_thread(0):
                bring(k, x, a, b, full)
                more = k.var(1 if adds else 0)
                with k.range(4):
                    k.tcgen05.mma(request, tmem.columns(0, N), a, b, shape, accumulate=more != 0)
                    more.set(1)
                k.tcgen05.commit(done)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            load = k.tcgen05.ld(tmem.columns(column, 8).lanes(k.warp_id() * 32), "32x32b", 8)
            k.tcgen05.wait_ld(load)
            out[k.thread_id()] = load.values[0]

    return multiplied


@pytest.mark.parametrize("name", LAYOUTS)
def test_columns_beside_the_result(name: str) -> None:
    m, stationary, columns = LAYOUTS[name]
    kernel = multiplied(m, stationary)
    assert refusals(kernel, column=columns - 8) == []
    assert refusals(kernel, column=columns - 4) == ["dry-run.tensor-unwritten"]
    assert refusals(kernel, column=columns) == ["dry-run.tensor-unwritten"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_first_product_that_adds(name: str) -> None:
    """A variable says that the first product adds: its value is known in a run alone."""
    m, stationary, _ = LAYOUTS[name]
    assert refusals(multiplied(m, stationary), column=0, adds=True) == ["dry-run.tensor-unwritten"]


@pytest.mark.parametrize(("group", "m"), [*every((1, 2), (32, 64, 128, 256))])
@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_cells_are_those_of_the_simulator(group: int, m: int, stationary: bool, sparse: bool) -> None:
    expected = accumulator(m, N, group, stationary=stationary, sparse=sparse)
    found = cells_of_result(m, N, group, is_sparse=sparse, is_stationary=stationary)
    if expected is None or found is None:
        assert expected is None and (found is None or stationary)
        return
    first = expected.cta[:, None] == 0
    lanes = np.unique(np.broadcast_to(expected.lane, (m, N))[np.broadcast_to(first, (m, N))])
    columns = np.unique(expected.column[np.broadcast_to(first, (m, N))])
    in_all, number = found
    assert lanes.tolist() == [lane for lane in range(128) if in_all or lane % 32 < 16]
    assert columns.tolist() == [*range(number)]


ROWS = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
HALF = "16x64b"
"""What a load or store of this shape has of each warp: 16 lanes."""


def two_halves(then: str) -> nvb.KernelDefinition:
    """Products of 64 rows in the lower lanes and in the upper ones of the same columns, and what comes `then`."""
    shape = nvb.InstructionDescriptor(kind="f16", m=64, n=N, a=f16, b=f16, d=f32)

    @nvb.kernel("sm_100a", threads=128)
    def two_halves(k: Any, x: nvb.Pointer(f16, align=16), out: OUT) -> None:
        a, b = k.shared_tile(ROWS, name="a"), k.shared_tile(COLUMNS, name="b")
        full, lower, upper = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "lower", "upper"))
        k.mbarrier.ready()
        with k.tcgen05.tmem(128) as tmem:
            d = tmem.columns(0, N)
            with k.one_thread(0):
                k.mbarrier.arrive(full, expect_tx=ROWS.bytes + COLUMNS.bytes)
                k.bulk.load(a.address, x, ROWS.bytes, full)
                k.bulk.load(b.address, x, COLUMNS.bytes, full)
                k.mbarrier.wait(full, 0)
                for half, done in ((d, lower), (d.lanes(16), upper)):
                    k.tcgen05.mma(nvb.Tcgen05Request("f16"), half, a, b, shape, accumulate=False)
                    k.tcgen05.commit(done)
            k.mbarrier.wait(lower, 0)
            k.tcgen05.fence_after_thread_sync()
            first = tmem.columns(0, 32).lanes(k.warp_id() * 32)
            if then == "load all":
                load = k.tcgen05.ld(first, "32x32b", 32)
                k.tcgen05.wait_ld(load)
                out[k.thread_id()] = load.values[0]
            else:
                lanes = first if then == "store lower" else first.lanes(16)
                k.tcgen05.st(lanes, HALF, [k.const(0, u32)] * 8)
                k.tcgen05.wait_st()
            k.mbarrier.wait(upper, 0)

    return two_halves


@pytest.mark.parametrize(
    ("then", "found"), [("load all", []), ("store lower", []), ("store upper", ["tcgen05.write-in-flight"])]
)
def test_what_comes_while_the_upper_product_is_in_flight(then: str, found: list[str]) -> None:
    assert refusals(two_halves(then)) == found


def test_a_load_of_the_lower_lanes_where_the_upper_ones_alone_are_written() -> None:
    """Where no product has half of the lanes, loads have the lanes that they say."""

    @nvb.kernel("sm_100a", threads=128)
    def stored(k: Any, out: OUT, *, at: int) -> None:
        with k.tcgen05.tmem(32) as tmem:
            lanes = tmem.columns(0, 32).lanes(k.warp_id() * 32)
            k.tcgen05.st(lanes.lanes(16), HALF, [k.const(0, u32)] * 8)
            k.tcgen05.wait_st()
            load = k.tcgen05.ld(lanes.lanes(at), HALF, 8)
            k.tcgen05.wait_ld(load)
            out[k.thread_id()] = load.values[0]

    assert refusals(stored, at=16) == []
    assert refusals(stored, at=0) == ["dry-run.tensor-unwritten"]


def test_a_load_that_does_not_wait_for_a_product_of_all_lanes() -> None:
    shape = nvb.InstructionDescriptor(kind="f16", m=128, n=N, a=f16, b=f16, d=f32)
    rows = SmemLayout(Major.K, SwizzleMode.B128, f16, 128, 64)

    @nvb.kernel("sm_100a", threads=128)
    def early(k: Any, x: nvb.Pointer(f16, align=16), out: OUT, *, waits: bool) -> None:
        a, b = k.shared_tile(rows, name="a"), k.shared_tile(COLUMNS, name="b")
        full, first, done = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "first", "done"))
        k.mbarrier.ready()
        with k.tcgen05.tmem(128) as tmem:
            with k.one_thread(0):
                bring(k, x, a, b, full)
                for column, over in ((0, first), (N, done)):
                    k.tcgen05.mma(nvb.Tcgen05Request("f16"), tmem.columns(column, N), a, b, shape, accumulate=False)
                    k.tcgen05.commit(over)
            k.mbarrier.wait(done if waits else first, 0)
            k.tcgen05.fence_after_thread_sync()
            load = k.tcgen05.ld(tmem.columns(N, 8).lanes(k.warp_id() * 32), "32x32b", 8)
            k.tcgen05.wait_ld(load)
            out[k.thread_id()] = load.values[0]
            k.mbarrier.wait(done, 0)

    assert refusals(early, waits=True) == []
    assert refusals(early, waits=False) == ["tcgen05.missing-wait"]
