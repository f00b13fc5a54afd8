"""Ping-pong consumers: each turn hands on the place in the ring, for any number of tiles and of steps in a tile."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from tests.support.runtime import assert_refused, rules

TILE = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
MATRIX = nvb.TensorMap(f16, box=(64, 64))
REGISTERS = {1: 232, 2: 232, 3: 152}
"""Of a thread, by the number of consumers."""


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers), min_ctas=1)
def products(
    k, a: MATRIX, b: MATRIX, first: nvb.Pointer[i32], out: nvb.Pointer[f32], tiles: i32,
    *, consumers: int = 2, stages: int = 3, in_flight: int = 1,
):  # fmt: skip
    """Tile t of `out` is the product of steps first[t] to first[t + 1] of A and B, which may be none."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    ring = k.pipeline(stages, consumers, pingpong=True, a=mma.smem_a(64), b=mma.smem_b(64))
    k.mbarrier.ready()
    steps = lambda tile: k.range(first[tile], first[tile + 1])  # noqa: E731
    mine = k.range(k.block_id(), tiles, k.block_count())
    with k.producer(registers=40), mine as tile, steps(tile) as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (0, step * 64), stage.full)
        k.tma.load(stage.b, b, (0, step * 64), stage.full)
    with k.consumers(registers=REGISTERS[consumers]) as warpgroup:
        acc = mma.accumulator()
        mine = k.block_id() + warpgroup * k.block_count()
        with k.range(mine, tiles, k.block_count() * consumers) as tile:
            acc.fill(0.0)
            group = lambda: k.wgmma.group(in_flight=in_flight)  # noqa: E731
            with ring.turn(warpgroup), steps(tile), ring.drain(in_flight) as stage, group():
                mma.accumulate(acc, stage.a, stage.b)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            k.store_accumulator(acc, out + tile * 64 * 64, 64)


@cache
def loaded(**constants):
    """The kernel in the simulator."""
    compiled = products.compile(assemble=False, **constants)
    assert compiled.diagnostics == ()
    return nvb.runtime.load(compiled, device="simulator")


def assert_right(steps, *, grid=1, **constants):
    """Tiles of so many steps each come out as NumPy has them."""
    ends = np.cumsum((0, *steps)).astype(np.int32)
    random = np.random.default_rng(len(steps))
    a, b = (random.integers(-3, 4, (64, 64 * max(1, ends[-1]))).astype(np.float16) for _ in range(2))
    out = np.full((len(steps) + 1, 64, 64), 77, np.float32)
    loaded(**constants).launch(grid, a, b, ends, out, len(steps))
    for tile, (first, last) in enumerate(pairwise(64 * ends)):
        expected = a[:, first:last].astype(np.float32) @ b[:, first:last].T.astype(np.float32)
        assert np.array_equal(out[tile], expected), tile
    assert np.all(out[-1] == 77)


@pytest.mark.parametrize("consumers", REGISTERS)
@pytest.mark.parametrize("tiles", range(6))
def test_any_number_of_tiles_leaves_no_consumer_waiting(consumers, tiles):
    assert_right([2] * tiles, consumers=consumers)


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.integers(0, 5), max_size=7),
    grid=st.integers(1, 3),
    consumers=st.sampled_from([*REGISTERS]),
    stages=st.integers(2, 4),
    in_flight=st.integers(0, 1),
)
def test_tiles_may_have_other_numbers_of_steps_each(steps, grid, consumers, stages, in_flight):
    assert_right(steps, grid=grid, consumers=consumers, stages=stages, in_flight=in_flight)


FLOATS = nvb.Pointer(f32, align=16)


@nvb.kernel("sm_90a", threads=384)
def turned(k, x: FLOATS, y: FLOATS, rows: i32, *, copies: str = "tma"):
    """Each row of y is that of x the other way round; the warpgroups are numbered by hand, and have two rows a turn."""
    ring = k.pipeline(3, 2, pingpong=True, copies=copies, row=(f32, 128))
    k.mbarrier.ready()
    thread = k.thread_id() % 128
    threads = k.one_thread if copies == "tma" else nullcontext
    with k.if_(k.warpgroup_id() == 0), threads(), k.range(rows) as row, ring.fill() as stage:
        if copies == "tma":
            k.bulk.load(stage.row, x + row * 128, 512, stage.full)
        else:
            k.cp_async.copy(stage.row + thread, x + row * 128 + thread, 4)
    with k.else_():
        consumer = k.warpgroup_id() - 1
        two = lambda first: k.range(first, k.math.min(first + 2, rows))  # noqa: E731
        with k.range(consumer * 2, rows, 4) as first, ring.turn(consumer), two(first) as row, ring.drain() as stage:
            y[row * 128 + 127 - thread] = stage.row[thread]
            k.barrier.sync(consumer + 1, 128)


@nvb.kernel("sm_90a", threads=384)
def multiplied(k, x: FLOATS, y: FLOATS, out: FLOATS, rows: i32):
    """Rows of x times those of y, from a ring in parts."""
    ring = k.pipeline(2, 2, pingpong=True, apart=True, x=(f32, 128), y=(f32, 128))
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(rows) as row:
        with ring.x.fill() as stage:
            k.bulk.load(stage.x, x + row * 128, 512, stage.full)
        with ring.y.fill() as stage:
            k.bulk.load(stage.y, y + row * 128, 512, stage.full)
    with k.else_():
        consumer, thread, held = k.warpgroup_id() - 1, k.thread_id() % 128, k.var(0.0)
        with k.range(consumer, rows, 2) as row:
            with ring.x.turn(consumer), ring.x.drain() as stage:
                held.set(stage.x[thread])
                k.barrier.sync(consumer + 1, 128)
            with ring.y.turn(consumer), ring.y.drain() as stage:
                out[row * 128 + thread] = held * stage.y[thread]
                k.barrier.sync(consumer + 1, 128)


@pytest.mark.parametrize("rows", [0, 1, 6, 9])
def test_rings_of_other_copies_and_of_parts_have_turns(rows):
    x, y = (np.random.default_rng(seed).random((rows + 1, 128), np.float32) for seed in range(2))
    for copies in ("tma", "cp.async"):
        out = np.zeros_like(x)
        nvb.runtime.load(turned.compile(assemble=False, copies=copies), device="simulator").launch(1, x, out, rows)
        assert np.array_equal(out[:rows], x[:rows, ::-1])
    out = np.zeros_like(x)
    nvb.runtime.load(multiplied.compile(assemble=False), device="simulator").launch(1, x, y, out, rows)
    assert np.array_equal(out[:rows], x[:rows] * y[:rows])


def builder(consumers=2, **options):
    return KernelBuilder("turns", "sm_90a", threads=128 * (1 + consumers), **options)


def ring(k, consumers=2, **options):
    return k.pipeline(2, consumers, **{"a": TILE, "pingpong": True, **options})


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("consumers", [1, 2, 3])
def test_a_stage_counts_one_consumer_of_each_cta(consumers, cluster):
    """And a turn all threads of the consumer that hands it on; one that is alone takes none."""
    k = builder(consumers, cluster=cluster)
    ring(k, consumers, multicast=cluster > 1)
    counts = [int(one.operands["count"]) for one in k.machine.instructions() if one.opcode == "mbarrier.init"]
    assert counts == [1, 1, *[cluster] * 2, *([128] * consumers if consumers > 1 else [])]


@pytest.mark.parametrize("cluster", [1, 2])
def test_one_thread_gives_a_stage_back_to_each_cta_and_all_hand_the_turn_on(cluster):
    k = builder(cluster=cluster)
    made = ring(k, multicast=cluster > 1)
    k.mbarrier.ready()
    with k.producer(40):
        made.finish()
    with k.consumers(232) as warpgroup, made.turn(warpgroup), made.drain():
        pass
    release, hand_on = (one for one in k.machine.instructions() if one.opcode.startswith("mbarrier.arrive"))
    assert (release.facts["threads"], release.facts["arrivals"]) == (2 * cluster, cluster)
    assert (hand_on.facts["threads"], hand_on.facts["warps"]) == (2 * 128, 8)


def drained(k, around):
    """A drain in the block that `around` makes of the ring and the number of the consumer."""
    made = ring(k)
    k.mbarrier.ready()
    with k.producer(40):
        pass
    with k.consumers(232) as warpgroup, around(made, warpgroup), made.drain():
        pass


def in_the_turn_of_another_ring(k):
    other = k.pipeline(2, 2, pingpong=True, b=TILE)
    drained(k, lambda _, warpgroup: other.turn(warpgroup))


def after_its_turn(k):
    def around(made, warpgroup):
        with made.turn(warpgroup):
            pass
        return nullcontext()

    drained(k, around)


@contextmanager
def twice(made, warpgroup):
    with made.turn(warpgroup), made.turn(warpgroup):
        yield


def of_all(number):
    """All consumers take turns by the number that this makes of theirs."""

    def make(k):
        made = ring(k)
        k.mbarrier.ready()
        with k.producer(40):
            pass
        with k.consumers(232) as warpgroup, k.range(3), made.turn(number(k, warpgroup)), made.drain():
            pass

    return make


def by_the_producer(k):
    made = ring(k)
    k.mbarrier.ready()
    with k.producer(40), made.turn(0):
        pass


def before_ready(k):
    made = ring(k)
    with k.producer(40):
        pass
    with k.consumers(232) as warpgroup, made.turn(warpgroup):
        pass


def not_in_turns(k):
    made = ring(k, pingpong=False)
    k.mbarrier.ready()
    with k.producer(40):
        pass
    with k.consumers(232) as warpgroup, made.turn(warpgroup):
        pass


def fed(k):
    made = ring(k)
    k.mbarrier.ready()
    with k.one_thread(), made.feed():
        pass


def left_early(k):
    made = ring(k)
    k.mbarrier.ready()
    with k.producer(40):
        pass
    with k.consumers(232) as warpgroup, k.range(3) as tile, made.turn(warpgroup):
        k.continue_if(tile == 1)


WRONG = {
    "outside of a turn": (lambda k: drained(k, lambda *_: nullcontext()), "pipeline.turn", "with ring.turn(warpgroup)"),
    "in the turn of another ring": (in_the_turn_of_another_ring, "pipeline.turn", "ring.drain() is outside of a turn"),
    "after its turn": (after_its_turn, "pipeline.turn", "ring.drain() is outside of a turn"),
    "a turn in a turn": (lambda k: drained(k, twice), "pipeline.turn", "inside of a turn of the same ring"),
    "a ring without turns": (not_in_turns, "pipeline.turn", "k.pipeline(..., pingpong=True)"),
    "fed": (fed, "pipeline.turn", "ring.feed() is for one thread"),
    "no consumers": (lambda k: ring(k, None), "pipeline.turn", "k.pipeline(stages, 2, pingpong=True"),
    "a number too large": (lambda k: drained(k, lambda one, _: one.turn(2)), "pipeline.turn", "numbered 0 to 1"),
    "a number below 0": (lambda k: drained(k, lambda one, _: one.turn(-1)), "pipeline.turn", "ring.turn(-1)"),
    "the same number for all": (of_all(lambda *_: 0), "pipeline.turn", "two consumers, warpgroups 1 and 2"),
    "one that both have": (of_all(lambda _, one: one // 2), "pipeline.turn", "ring.turn(0) is the turn of two"),
    "the number of the warpgroup": (of_all(lambda k, _: k.warpgroup_id()), "pipeline.turn", "ring.turn(2) of warpgr"),
    "one less": (of_all(lambda _, one: one - 1), "pipeline.turn", "ring.turn(-1) of warpgroup 1 is of no consumer"),
    "by the producer": (by_the_producer, "pipeline.role", "ring.turn() is for all threads of a consumer warpgroup"),
    "before the barriers are ready": (before_ready, "pipeline.not-ready", "ring.turn()"),
    "left early": (left_early, "pipeline.left", "leaves the ring.turn() block"),
    "a misspelt option": (lambda k: k.pipeline(2, 2, pingpog=True, a=16), "pipeline.bytes", "mean pingpong=True"),
}


@pytest.mark.parametrize("number", [lambda _, one: 1 - one, lambda k, one: k.select(one == 0, 1, 0)])
def test_consumers_may_be_numbered_another_way(number):
    assert rules(lambda: of_all(number)(builder())) == []


def test_numbers_of_branches_are_not_compared():
    """Which consumer comes to a line is only known there."""

    def make():
        k = builder(parameters=[nvb.Parameter("first", nvb.Pointer(i32))])
        made, first = ring(k), k.arguments[0]
        k.mbarrier.ready()
        with k.producer(40):
            pass
        with k.consumers(232) as warpgroup:
            with k.if_(first[warpgroup] == 1), made.turn(0), made.drain():
                pass
            with k.else_(), made.turn(1), made.drain():
                pass

    assert rules(make) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_out_of_turn_is_refused(name):
    make, rule, text = WRONG[name]
    assert_refused(lambda: make(builder()), rule, text)
