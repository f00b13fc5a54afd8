"""Tensor memory along the control flow: every mistake in a real kernel, and none told of kernels without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.ops.matrix.tensor_memory import TmemColumns
from nvbackend.intrinsics.row.types import i32, u32, u64
from nvbackend.isel.flow.dataflow import solve
from nvbackend.isel.flow.paths import warp_paths
from nvbackend.isel.protocols.tmem.protocol import check_tmem_protocol
from nvbackend.isel.protocols.tmem.state import Surroundings, step
from nvbackend.isel.select.tcgen05.request import Tcgen05Request
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.tmem_kernel import COLUMNS, F16, SHAPE, multiply

SHAPE_64 = replace(SHAPE, n=64)
MISTAKES = [
    ("no dealloc", "tcgen05.missing-dealloc"),
    ("dealloc on one path", "tcgen05.missing-dealloc"),
    ("return early", "tcgen05.missing-dealloc"),
    ("free twice", "tcgen05.double-dealloc"),
    ("other columns", "tcgen05.dealloc-columns"),
    ("too many columns", "tcgen05.total-columns"),
    ("relinquish first", "tcgen05.alloc-after-relinquish"),
    ("read after dealloc", "tcgen05.not-allocated"),
    ("store without wait", "tcgen05.missing-wait-st"),
    ("no commit", "tcgen05.missing-commit"),
    ("no wait", "tcgen05.missing-wait"),
    ("no fence after", "tcgen05.missing-fence-after"),
    ("no fence before", "tcgen05.missing-fence-before"),
    ("accumulate at first", "tcgen05.undefined-accumulator"),
    ("outside", "tcgen05.bounds"),
]


def rules(*changes: str, **more: int) -> list[str]:
    k = multiply(*changes, **more)
    k.return_()
    k.core.link()
    return [one.rule_id for one in check_tmem_protocol(k.machine)]


@pytest.mark.parametrize(("issuer", "threads"), [(0, 128), (2, 128), (4, 160), (4, 256)])
@pytest.mark.parametrize("changes", [(), ("no relinquish",), ("store",)])
def test_a_kernel_without_a_mistake_is_left_alone(issuer: int, threads: int, changes: tuple[str, ...]) -> None:
    assert rules(*changes, issuer=issuer, threads=threads) == []


@pytest.mark.parametrize(("issuer", "threads"), [(0, 128), (4, 192)])
@pytest.mark.parametrize(("change", "rule"), MISTAKES, ids=[change for change, _ in MISTAKES])
def test_each_mistake_is_told_once(change: str, rule: str, issuer: int, threads: int) -> None:
    assert rules(change, issuer=issuer, threads=threads) == [rule]


def told(k: KernelBuilder) -> list[str]:
    k.return_()
    k.core.link()
    return [one.rule_id for one in check_tmem_protocol(k.machine)]


def new(threads: int = 160) -> KernelBuilder:
    parameters = [Parameter("out", Pointer(u32)), Parameter("tiles", Scalar(i32))]
    return KernelBuilder("kernel", "sm_100a", threads=threads, parameters=parameters)


def persistent(k: KernelBuilder, *, wait: bool = True, fence: bool = True) -> None:
    """Two accumulators in turn: one thread of warp 4 multiplies the next while warps 0 to 3 read the last."""
    out, tiles = k.arguments
    full, free = k.mbarrier.array(2, 1, name="full"), k.mbarrier.array(2, 128, name="free")
    k.mbarrier.ready()
    with k.tcgen05.tmem(2 * COLUMNS) as tmem:
        with k.one_thread(4), k.range(tiles) as tile:
            half = tile % 2
            k.mbarrier.wait(free + half, (tile // 2 % 2) ^ 1)
            k.tcgen05.fence_after_thread_sync()
            place = tmem.columns(half * COLUMNS, COLUMNS)
            for index in range(4):
                k.tcgen05.mma(F16, place, k.const(0, u64), k.const(0, u64), SHAPE, accumulate=index > 0)
            k.tcgen05.commit(full + half)
        with k.if_(k.warp_id() < 4), k.range(tiles) as tile:
            half = tile % 2
            if wait:
                k.mbarrier.wait(full + half, tile // 2 % 2)
            if fence:
                k.tcgen05.fence_after_thread_sync()
            load = k.tcgen05.ld(tmem.columns(half * COLUMNS, 32).lanes(k.warp_id() * 32), "32x32b", 32)
            k.tcgen05.wait_ld(load)
            k.tcgen05.fence_before_thread_sync()
            k.mbarrier.arrive(free + half)
            out[k.thread_id()] = load.values[0]


def test_a_pipeline_over_two_accumulators() -> None:
    for changes, expected in (
        ({}, []),
        ({"wait": False}, ["tcgen05.missing-wait"]),
        ({"fence": False}, ["tcgen05.missing-fence-after"]),
    ):
        k = new()
        persistent(k, **changes)
        assert told(k) == expected


def test_warps_that_have_nothing_to_give_back_may_leave() -> None:
    k = new()
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
    with k.if_(k.warp_id() == 3):
        k.return_()
    with k.if_(k.warp_id() == 0):
        k.tcgen05.dealloc(cell[0], 64)
    assert told(k) == []


def test_another_warp_may_give_back() -> None:
    k = new()
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
    k.barrier.sync()
    with k.if_(k.thread_id() // 32 == 2):
        k.tcgen05.dealloc(cell[0], 64)
    assert told(k) == []


def test_allocation_in_a_loop_and_under_a_condition() -> None:
    k = new()
    cell = k.shared(u32, 1)
    tiles = k.arguments[1]
    with k.range(tiles), k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 512)
        k.tcgen05.dealloc(cell[0], 512)
    with k.if_(tiles > 3):
        with k.if_(k.warp_id() == 0):
            k.tcgen05.alloc(cell + 0, 512)
        k.barrier.sync()
        with k.if_(k.warp_id() == 0):
            k.tcgen05.dealloc(cell[0], 512)
    assert told(k) == []


def test_allocations_one_in_another_relinquish_once() -> None:
    for first, expected in ((False, []), (True, ["tcgen05.alloc-after-relinquish"])):
        k = new()
        with k.tcgen05.tmem(256, relinquish=first), k.tcgen05.tmem(256, name="scales"):
            pass
        assert told(k) == expected


def test_three_allocations_are_too_many_for_one_sm() -> None:
    k = new()
    with k.tcgen05.tmem(256, relinquish=False), k.tcgen05.tmem(256, relinquish=False), k.tcgen05.tmem(32):
        pass
    assert told(k) == ["tcgen05.total-columns"]


def test_the_thread_that_is_elected_goes_through_its_block() -> None:
    """The first of two elected blocks defines the accumulator that the second adds to."""
    for first, expected in ((False, []), (True, ["tcgen05.undefined-accumulator"])):
        k = new()
        done = k.mbarrier.array(1, 1)
        with k.tcgen05.tmem(COLUMNS) as tmem:
            for accumulate in (first, True):
                with k.one_thread():
                    k.tcgen05.mma(F16, tmem, k.const(0, u64), k.const(0, u64), SHAPE, accumulate=accumulate)
            with k.one_thread():
                k.tcgen05.commit(done)
        assert told(k) == expected


def issue(k: KernelBuilder, tmem: object, *, accumulate: bool = False) -> None:
    k.tcgen05.mma(F16, tmem, k.const(0, u64), k.const(0, u64), SHAPE, accumulate=accumulate)


def read(k: KernelBuilder, tmem: object) -> None:
    load = k.tcgen05.ld(tmem, "32x32b", 32)
    k.tcgen05.wait_ld(load)
    k.arguments[0][k.thread_id()] = load.values[0]


def test_a_barrier_hands_on_what_one_thread_has_waited_for() -> None:
    for waits, expected in ((True, []), (False, ["tcgen05.missing-wait"])):
        k = new()
        done = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.tcgen05.tmem(COLUMNS) as tmem:
            with k.one_thread(2):
                issue(k, tmem)
                k.tcgen05.commit(done)
                if waits:
                    k.mbarrier.wait(done, 0)
                    k.tcgen05.fence_before_thread_sync()
            if waits:
                k.barrier.sync()
            k.tcgen05.fence_after_thread_sync()
            with k.if_(k.warp_id() < 4):
                read(k, tmem)
        assert told(k) == expected


@pytest.mark.parametrize(("after", "expected"), [(True, []), (False, ["tcgen05.missing-fence-after"])])
def test_only_the_fence_behind_a_wait_orders_what_follows(after: bool, expected: list[str]) -> None:
    k = new()
    done = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(COLUMNS) as tmem:
        with k.one_thread(2):
            issue(k, tmem)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
        if after:
            k.tcgen05.fence_after_thread_sync()
        else:
            k.tcgen05.fence_before_thread_sync()
        with k.if_(k.warp_id() < 4):
            read(k, tmem)
    assert told(k) == expected


@pytest.mark.parametrize(("before", "expected"), [(True, []), (False, ["tcgen05.missing-fence-before"])])
def test_only_the_fence_before_a_barrier_orders_what_came_before(before: bool, expected: list[str]) -> None:
    k = new()
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
    k.barrier.sync()
    with k.if_(k.warp_id() == 1):
        read(k, cell[0])
    if before:
        k.tcgen05.fence_before_thread_sync()
    else:
        k.tcgen05.fence_after_thread_sync()
    k.barrier.sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05.dealloc(cell[0], 64)
    assert told(k) == expected


def test_columns_are_given_back_at_the_address_of_the_allocation() -> None:
    places = (
        *((lambda n, moved=moved: moved, moved != 0) for moved in (0, 32, 63, 64, 256)),
        *((lambda n: n + 32, False), (lambda n: 32 - (n & 32), False)),
    )
    for place, is_wrong in places:
        k = new()
        cell, moved = k.shared(u32, 1), place(k.arguments[1].to(u32))
        with k.if_(k.warp_id() == 0):
            k.tcgen05.alloc(cell, 64)
            k.tcgen05.dealloc(cell[0] + moved, 64)
        assert told(k) == ["tcgen05.dealloc-columns"] * is_wrong


@pytest.mark.parametrize(("wait", "expected"), [(True, []), (False, ["tcgen05.missing-wait-st"])])
def test_a_multiplicand_is_stored_before_it_is_multiplied(wait: bool, expected: list[str]) -> None:
    k = new(128)
    done = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(2 * COLUMNS) as tmem:
        a = tmem.columns(COLUMNS, 32)
        k.tcgen05.st(a.lanes(k.warp_id() * 32), "32x32b", [1] * 32)
        if wait:
            k.tcgen05.wait_st()
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()
        k.tcgen05.fence_after_thread_sync()
        with k.one_thread():
            request = Tcgen05Request("f16", a_in_tmem=True)
            k.tcgen05.mma(request, tmem, a, k.const(0, u64), SHAPE, accumulate=False)
            k.tcgen05.commit(done)
    assert told(k) == expected


def test_what_warps_store_themselves_needs_no_wait_for_an_mma() -> None:
    k = new()
    done = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(2 * COLUMNS) as tmem:
        with k.one_thread(4):
            issue(k, tmem)
            k.tcgen05.commit(done)
        with k.if_(k.warp_id() < 4):
            mine = tmem.columns(COLUMNS, 32).lanes(k.warp_id() * 32)
            k.tcgen05.st(mine, "32x32b", [1] * 32)
            k.tcgen05.wait_st()
            read(k, mine)
    assert told(k) == []


def test_an_accumulator_that_another_warp_defines_is_defined() -> None:
    for first, expected in ((False, []), (True, ["tcgen05.undefined-accumulator"])):
        k = new()
        done = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.tcgen05.tmem(COLUMNS) as tmem:
            for warp, accumulate in ((1, first), (2, True)):
                with k.one_thread(warp):
                    issue(k, tmem, accumulate=accumulate)
                    k.tcgen05.commit(done)
                k.barrier.sync()
        assert told(k) == expected


A_IN_TMEM = Tcgen05Request("f16", a_in_tmem=True)


def multiply_a_of_tmem(k: KernelBuilder, tmem: TmemColumns, *, wait: str, place: int = 64) -> None:
    """Rounds that store A, multiply it, and store the next: D in columns 0 to 63, A in eight from 64 on."""
    done = k.mbarrier.array(1, arrivals=1, name="done")
    other = k.mbarrier.array(1, arrivals=1, name="other")
    k.mbarrier.ready()
    phase = k.var(0)
    with k.range(k.arguments[1]) as step:
        if wait == "guarded":
            with k.if_(step > 0):
                k.mbarrier.wait(done, phase)
        k.tcgen05.st((tmem.columns(place, 8) if place else tmem).lanes(k.warp_id() * 32), "32x32b", [0] * 8)
        k.tcgen05.wait_st()
        k.tcgen05.fence_before_thread_sync()
        with k.one_thread():
            k.tcgen05.mma(A_IN_TMEM, tmem, tmem.columns(64, 8), 0, SHAPE_64, accumulate=False)
            k.tcgen05.commit(done)
        if wait == "another":
            k.mbarrier.wait(other, phase)
        if wait == "behind":
            k.mbarrier.wait(done, phase)
        phase.set(phase ^ 1)


@pytest.mark.parametrize(
    ("wait", "place", "expected"),
    [
        ("behind", 64, []),
        ("guarded", 64, []),
        ("none", 64, ["tcgen05.write-in-flight"]),
        ("another", 64, ["tcgen05.write-in-flight"]),
        ("none", 72, []),
        ("none", 56, ["tcgen05.write-in-flight"]),
        ("behind", 56, []),
    ],
)
def test_columns_that_an_mma_reads_or_writes_are_stored_behind_a_wait(
    wait: str, place: int, expected: list[str]
) -> None:
    k = new(32)
    with k.tcgen05.tmem(128) as tmem:
        multiply_a_of_tmem(k, tmem, wait=wait, place=place)
    assert told(k) == expected


@pytest.mark.parametrize(
    ("columns", "first", "expected"),
    [
        ((0, 64), (False, False), []),
        ((0, 64), (False, True), ["tcgen05.undefined-accumulator"]),
        ((0, 0), (False, True), []),
        ((64, 0), (False, True), ["tcgen05.undefined-accumulator"]),
        ((0, 32), (False, True), []),
    ],
)
def test_each_chain_begins_by_overwriting(
    columns: tuple[int, int], first: tuple[bool, bool], expected: list[str]
) -> None:
    k = new(32)
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with k.tcgen05.tmem(128) as tmem, k.one_thread():
        for column, accumulate in zip(columns, first, strict=True):
            k.tcgen05.mma(F16, tmem.columns(column, 64), 0, 0, SHAPE_64, accumulate=accumulate)
        k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
    assert told(k) == expected


def test_a_chain_at_a_place_that_is_not_known_may_begin_anywhere() -> None:
    k = new(32)
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with k.tcgen05.tmem(128) as tmem, k.one_thread():
        k.tcgen05.mma(F16, tmem.columns(k.arguments[1] * 64, 64), 0, 0, SHAPE_64, accumulate=False)
        k.tcgen05.mma(F16, tmem.columns(64, 64), 0, 0, SHAPE_64, accumulate=True)
        k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
    assert told(k) == []


def test_addresses_that_are_not_known_are_left_alone() -> None:
    k = new()
    out = k.arguments[0]
    load = k.tcgen05.ld(out[0], "32x32b", 1)
    k.tcgen05.wait_ld(load)
    k.tcgen05.st(out[1], "32x32b", [load.values[0]])
    k.tcgen05.dealloc(out[2], 64)
    assert told(k) == []


def test_an_address_that_is_not_known_may_be_the_one_that_is_freed() -> None:
    """Nothing certain is left to say of the allocation: it may be given back."""
    k = new()
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
        k.tcgen05.relinquish_alloc_permit()
    k.barrier.sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05.dealloc(k.arguments[0][2], 64)
    assert told(k) == []


def test_the_work_grows_with_the_text() -> None:
    """Four times the kernel takes four times the steps of the solver: the state does not grow with it."""
    sizes = []
    for repeats in (4, 16):
        k = new()
        done = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.tcgen05.tmem(COLUMNS) as tmem:
            for _ in range(repeats):
                with k.one_thread(), k.range(k.arguments[1]) as index:
                    k.tcgen05.mma(F16, tmem, k.const(0, u64), k.const(0, u64), SHAPE, accumulate=index > 0)
                    k.tcgen05.commit(done)
        k.return_()
        k.core.link()
        sizes.append(sum(solve(path, Counting()).transfers for path in warp_paths(k.machine)))
    assert sizes[1] < 4.5 * sizes[0]


class Counting:
    """An analysis whose facts are those of the real one, for the number of its transfers."""

    def entry(self):
        return frozenset()

    def join(self, left, right):
        return left | right

    def transfer(self, state, site):
        return step(state, site, Surroundings(frozenset(), frozenset(), frozenset(), frozenset()))[0]
