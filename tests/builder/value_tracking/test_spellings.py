"""One mistake has one rule, however the condition is written that decides who makes it.

A spelling is a condition over the thread's index that holds for the first `count` threads of the CTA. Python evaluates
each by itself, in `THREADS` threads.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, i32, s4, u8, u16, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.thread_tables.tables import ThreadSet
from nvbackend.builder.values.values import Value

THREADS = 128
LAYOUT = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
MAP = nvb.TensorMap(f16, box=(64, 64))
Spelling = Callable[[KernelBuilder, Value], Value]


def bit(k: KernelBuilder, t: Value) -> Value:
    """A bit for each lane of the warp that has a smaller index than 2."""
    return k.warp.vote("ballot", t < 2) >> k.lane_id().to(u32) & 1


PAIRS: dict[str, Spelling] = {
    "less": lambda _, t: t < 2,
    "select": lambda k, t: k.select(t < 2, 1, 0) != 0,
    "difference": lambda _, t: (t - 2) < 0,
    "product": lambda _, t: t * -1 > -2,
    "wrap": lambda _, t: t.to(u32) - 2 > 0xFFFFFFF0,
    "select of predicates": lambda k, t: k.select(t < 64, t < 2, t < 0),
    "not": lambda _, t: ~(t >= 2),
    "xor": lambda _, t: (t < 64) ^ ((t >= 2) & (t < 64)),
    "xor of equals": lambda _, t: (t == 0) ^ (t == 1),
    "or": lambda _, t: (t == 0) | (t == 1),
    "min": lambda k, t: k.math.min(t, 2) != 2,
    "max": lambda k, t: k.math.max(t, 1) == 1,
    "quotient": lambda _, t: t // 2 == 0,
    "quotient by three": lambda _, t: (t + 1) // 3 == 0,
    "remainder": lambda _, t: (t % 32 < 2) & (t // 32 == 0),
    "mask and shift": lambda _, t: ((t & 127) >> 1) == 0,
    "shift by a thread": lambda k, t: (k.const(3, u64) >> t.to(u64)) & 1 != 0,
    "narrow": lambda _, t: (t.to(u8) << 1).to(u8) < 4,
    "nibble": lambda _, t: (t < 8) & ((t % 8).to(s4).to(i32) < 2),
    "wide": lambda _, t: t.to(u64) * (1 << 33) < 1 << 34,
    "of 16 bits": lambda _, t: (t.to(u16) * 512).to(u16) < (t.to(u16) * 0 + 1024),
    "predicate as a number": lambda k, t: k.select(t < 2, k.const(1, u8), k.const(0, u8)).to(i32) * 7 == 7,
    "ballot": lambda k, t: bit(k, t) != 0,
    "lanes below": lambda k, t: (k.special_register("lanemask_lt").to(u32) < 2) & (k.warp_id() == 0),
    "lane register": lambda k, t: (k.special_register("laneid") < 2) & (k.warp_id() == 0),
    "shuffle down": lambda k, t: k.warp.shuffle(t, "down", 2) < 4,
    "butterfly": lambda k, t: k.warp.shuffle(t, "bfly", 1) < 2,
    "match": lambda k, t: (k.warp.match("any", k.select(t < 2, 1, t)) == 3) & (t < 32),
    "reduction": lambda k, t: k.warp.reduce("add", k.select(t < 2, 1, 0)) * (1 - t // 2) == 2,
}
"""Conditions that hold for threads 0 and 1."""
BROADCASTS: dict[str, Spelling] = {
    "broadcast of lane 1": lambda k, t: k.warp.shuffle(t, "idx", 1) == 1,
    "first warp": lambda k, t: k.warp_id() == 0,
    "quotient": lambda _, t: t // 32 == 0,
    "vote": lambda k, t: k.warp.vote("any", t == 7),
    "all": lambda k, t: k.warp.vote("all", t < 32),
    "mask": lambda _, t: (t & 96) == 0,
    "elected": lambda k, t: k.warp.vote("ballot", k.elect()) + t.to(u32) // 32 == k.warp.vote("ballot", k.elect()),
}
"""Conditions that hold for the first 32 threads."""
HALVES: dict[str, Spelling] = {
    "less": lambda _, t: t < 64,
    "select": lambda k, t: k.select(t < 64, 1, 0) != 0,
    "difference": lambda _, t: (t - 64) < 0,
    "not": lambda _, t: ~(t >= 64),
    "wrap": lambda _, t: t.to(u32) - 64 > 0xFFFFFF00,
    "bit": lambda _, t: (t & 64) == 0,
    "warps": lambda k, t: k.warp_id() // 2 == 0,
    "min": lambda k, t: k.math.min(t, 64) != 64,
}
"""Conditions that hold for the first half of the warpgroup."""
SINGLES: dict[str, Spelling] = {
    "equal": lambda _, t: t == 0,
    "less": lambda _, t: t < 1,
    "not": lambda _, t: ~(t != 0),
    "select": lambda k, t: k.select(t == 0, 1, 0) == 1,
    "wrap": lambda _, t: t.to(u32) - 1 == 0xFFFFFFFF,
    "min": lambda k, t: k.math.min(t, 1) == 0,
    "elected": lambda k, t: k.elect() & (t // 32 == 0),
    "selected election": lambda k, t: k.select(k.elect(), t // 32, 1) == 0,
    "election as a number": lambda k, t: k.select(k.elect(), 1, 0) - t // 32 == 1,
    "lane": lambda k, t: (k.lane_id() == 0) & (t < 32),
}
"""Conditions that hold for one thread of the first warp."""


def ids(program: Callable[..., None], *parameters: object, target: str = "sm_90a") -> set[str]:
    """The rules that a kernel breaks."""
    k = KernelBuilder("kernel", target, threads=THREADS, parameters=[nvb.signature.Parameter("a", MAP)])
    try:
        program(k, *k.arguments, *parameters)
        found = k.finish().diagnostics
    except DiagnosticError as error:
        found = error.diagnostics
    return {one.rule.id for one in found}


def here(spelling: Spelling, target: str = "sm_90a") -> ThreadSet | None:
    """The threads that the builder takes to be where a condition holds."""
    k = KernelBuilder("kernel", target, threads=THREADS)
    with k.if_(spelling(k, k.thread_id())):
        return k.core.execution.here()


def parametrize(**groups: dict[str, Spelling]) -> pytest.MarkDecorator:
    cases = [
        pytest.param(spelling, int(size.removeprefix("of_")), id=f"{size}-{name}")
        for size, group in groups.items()
        for name, spelling in group.items()
    ]
    return pytest.mark.parametrize(("spelling", "count"), cases)


EVERY = parametrize(of_1=SINGLES, of_2=PAIRS, of_32=BROADCASTS, of_64=HALVES)


@EVERY
def test_the_threads_are_counted(spelling: Spelling, count: int) -> None:
    found = here(spelling)
    assert found is not None
    assert found.count == count


def arrive(k: KernelBuilder, _: object, spelling: Spelling, arrivals: int) -> None:
    full = k.mbarrier.array(1, arrivals=arrivals)
    k.mbarrier.ready()
    chosen = spelling(k, k.thread_id())
    with k.if_(chosen):
        k.mbarrier.arrive(full)
    k.mbarrier.wait(full, 0)


@EVERY
def test_arrivals_on_an_mbarrier(spelling: Spelling, count: int) -> None:
    assert ids(arrive, spelling, count) == set()
    assert ids(arrive, spelling, 1 if count > 1 else 2) == {"mbarrier.arrivals"}


@pytest.mark.parametrize("spelling", [lambda _, t: t < 0, lambda _, t: t >= THREADS, lambda k, t: k.warp_id() == 9])
def test_arrivals_of_nobody(spelling: Spelling) -> None:
    assert ids(arrive, spelling, 1) == {"mbarrier.no-arrival"}


def copy(k: KernelBuilder, a, spelling: Spelling) -> None:
    tile = k.shared_tile(LAYOUT)
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    chosen = spelling(k, k.thread_id())
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
    with k.if_(chosen):
        k.tma.load(tile, a, (0, 0), full)
    k.mbarrier.wait(full, 0)


@parametrize(of_1=SINGLES, of_2=PAIRS, of_32=BROADCASTS)
def test_a_copy_is_of_one_thread(spelling: Spelling, count: int) -> None:
    found = ids(copy, spelling)
    assert found == set() if count == 1 else "tma.one-thread" in found


def commit(k: KernelBuilder, _: object, spelling: Spelling) -> None:
    """The products are started by thread 64, and closed by others."""
    done = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    chosen = spelling(k, k.thread_id())
    with k.if_(k.thread_id() == 64):
        k.tcgen05.cp(k.const(0, u32), k.const(0, u64), "128x256b")
    with k.if_(chosen):
        k.tcgen05.commit(done)


@parametrize(of_1=SINGLES, of_2=PAIRS)
def test_tensor_core_work_is_closed_by_the_thread_that_started_it(spelling: Spelling, count: int) -> None:
    assert "async.other-threads" in ids(commit, spelling, target="sm_100a")


def multiply(k: KernelBuilder, _: object, spelling: Spelling) -> None:
    with k.if_(spelling(k, k.thread_id())):
        k.wgmma.fence()


@parametrize(of_2=PAIRS, of_32=BROADCASTS, of_64=HALVES)
def test_a_warpgroup_multiplies_together(spelling: Spelling, count: int) -> None:
    assert ids(multiply, spelling) == {"convergence.warpgroup"}


@parametrize(of_1=SINGLES)
def test_a_warpgroup_does_not_multiply_in_one_thread(spelling: Spelling, count: int) -> None:
    assert ids(multiply, spelling) == {"control.one-thread"}


@parametrize(of_1=SINGLES)
def test_one_thread_may_ask_itself(spelling: Spelling, count: int) -> None:
    def program(k: KernelBuilder, _: object) -> None:
        with k.if_(spelling(k, k.thread_id())):
            k.warp.active_lanes()
            k.warp.vote("any", k.thread_id() > 3, members=1)

    assert ids(program) == set()


def otherwise(k: KernelBuilder, _: object, spelling: Spelling) -> None:
    with k.if_(~spelling(k, k.thread_id())):
        pass
    with k.else_():
        k.wgmma.fence()


@parametrize(of_1=SINGLES)
def test_an_else_of_one_thread_is_one_too(spelling: Spelling, count: int) -> None:
    assert ids(otherwise, spelling) == {"control.one-thread"}


def synchronize(k: KernelBuilder, _: object, spelling: Spelling) -> None:
    with k.if_(spelling(k, k.thread_id())):
        k.barrier.sync(1)


@parametrize(of_2=PAIRS, of_32=BROADCASTS, of_64=HALVES)
def test_a_barrier_of_all_is_not_for_some(spelling: Spelling, count: int) -> None:
    assert ids(synchronize, spelling) == {"barrier.divergent"}


def named(k: KernelBuilder, _: object, spelling: Spelling) -> None:
    k.barrier.sync(k.select(spelling(k, k.thread_id()), 16, 1), THREADS)


@EVERY
def test_a_barrier_that_there_is_not(spelling: Spelling, count: int) -> None:
    assert ids(named, spelling) == {"barrier.id"}
