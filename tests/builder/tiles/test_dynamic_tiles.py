"""Dynamic tiles: each is drawn once, by whatever CTA, and the consumers take what their producer has drawn."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.said import said

Counter = nvb.Pointer(i32)
Numbers = nvb.Pointer(i32)


class Place(NamedTuple):
    """Where a tile is, in the words of a test."""

    row: nvb.Value
    column: nvb.Value
    steps: nvb.Value


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers))
def numbered(
    k, counter: Counter, out: Numbers, order: Numbers, count: i32(minimum=0), *, consumers: int = 2, mailboxes: int = 2
):
    """Each thread of the consumers counts the tile in `out`, and its first one writes how many the CTA had before."""
    tiles = k.dynamic_tiles(counter, count, consumers, mailboxes=mailboxes)
    k.mbarrier.ready()
    with k.producer(40), tiles.draw() as tile:
        k.atomic.add(out + tile, 1000)
    with k.consumers(152), tiles.take() as tile:
        k.atomic.add(out + tile, 1)
        with k.if_(k.thread_id() == 128):
            order[tile] = tiles.before


PARTS = {1: lambda *parts: parts[:1], 3: Place, 4: lambda *parts: (*parts, 7), 7: lambda *parts: (*parts, *parts, 7)}
"""What a place is, by how many parts it has."""


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers))
def placed(
    k, counter: nvb.Pointer(u32), steps: Numbers, out: Numbers, count: i32(minimum=1), columns: i32(minimum=1),
    *, consumers: int = 1, mailboxes: int = 2, parts: int = 3,
):  # fmt: skip
    """Row `2 * tile + side` of `out` has the parts of the tile's place, as the side was given them; one is negative."""

    def place(tile):
        return PARTS[parts](tile // columns - 5, (tile % columns).to(u32), steps[tile])

    tiles = k.dynamic_tiles(counter, count, consumers, place=place, mailboxes=mailboxes)
    k.mbarrier.ready()

    def write(side, given):
        assert type(given) is (Place if parts == 3 else tuple)
        assert [part.type for part in given] == [i32, u32, i32, i32, u32, i32, i32][:parts]
        tile = tiles.before  # the CTA is alone
        for index, part in enumerate(given):
            out[(tile * 2 + side) * parts + index] = part.to(i32)

    with k.producer(40), tiles.draw() as given:
        write(0, given)
    with k.consumers(152), tiles.take() as given, k.if_(k.thread_id() == 255):
        write(1, given)


@cache
def loaded(kernel, **constants):
    """The kernel in the simulator."""
    compiled = kernel.compile(assemble=False, **constants)
    assert compiled.diagnostics == ()
    return nvb.runtime.load(compiled, device="simulator")


def assert_each_once(count, grid, **constants):
    counter, out, order = (np.zeros(size, np.int32) for size in (1, count + 1, count + 1))
    for launch in (1, 2):  # the second finds the counter that the first has left
        loaded(numbered, **constants).launch(grid, counter, out, order, count)
        assert counter[0] == 0
        assert np.all(out[:count] == launch * (1000 + 128 * constants.get("consumers", 2)))
        assert out[count] == 0
    assert np.sum(order[:count] == 0) == min(count, np.prod(grid))  # the first tiles


@settings(max_examples=30, deadline=None)
@given(
    count=st.integers(0, 14),
    grid=st.one_of(st.integers(1, 6), st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2))),
    consumers=st.integers(1, 3),
    mailboxes=st.integers(1, 4),
)
def test_each_tile_is_computed_once(count, grid, consumers, mailboxes):
    assert_each_once(count, grid, consumers=consumers, mailboxes=mailboxes)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize(("count", "mailboxes"), [(1, 2), (7, 1), (8, 3)])
def test_the_mail_carries_the_parts_of_a_place(parts, count, mailboxes):
    steps, counter = np.arange(count, dtype=np.int32) * 100, np.zeros(1, np.uint32)
    out = np.full((count, 2, parts), 77, np.int32)
    loaded(placed, parts=parts, mailboxes=mailboxes).launch(1, counter, steps, out, count, 3)
    for tile in range(count):
        row, column = divmod(tile, 3)
        expected = (row - 5, column, steps[tile], *((7,) if parts == 4 else (row - 5, column, steps[tile], 7)))
        assert out[tile, 0].tolist() == out[tile, 1].tolist() == [*expected[:parts]]


@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def pingpong(
    k, a: nvb.TensorMap(f16, box=(64, 64)), counter: Counter, out: nvb.Pointer[f32], count: i32(minimum=1), steps: i32,
    *, mailboxes: int = 3,
):  # fmt: skip
    """The consumers take every tile, and each multiplies every second one in its turn: A times its transpose."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    ring = k.pipeline(3, 2, pingpong=True, a=mma.smem_a(64))
    tiles = k.dynamic_tiles(counter, count, 2, mailboxes=mailboxes)
    k.mbarrier.ready()
    with k.producer(40), tiles.draw() as tile, k.range(steps) as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (tile * 64, step * 64), stage.full)
    with k.consumers(232) as warpgroup:
        acc = mma.accumulator()
        with tiles.take() as tile, k.if_(tiles.before % 2 == warpgroup):
            acc.fill(0.0)
            with ring.turn(warpgroup), k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.a)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            k.store_accumulator(acc, out + tile * 64 * 64, 64)


@pytest.mark.parametrize(("count", "grid"), [(1, 1), (2, 1), (5, 1), (6, 2), (3, 4)])
def test_ping_pong_consumers_take_every_tile(count, grid):
    a = np.random.default_rng(count).integers(-3, 4, (64 * count, 128)).astype(np.float16)
    out, counter = np.zeros((count, 64, 64), np.float32), np.zeros(1, np.int32)
    loaded(pingpong).launch(grid, a, counter, out, count, 2)
    tiles = a.reshape(count, 64, 128).astype(np.float32)
    assert np.array_equal(out, tiles @ tiles.transpose(0, 2, 1))
    assert counter[0] == 0


# -- mistakes ----------------------------------------------------------------------------------------------------------


def builder(threads=384, **options):
    counter = Parameter("counter", Pointer(i32)), Parameter("n", Scalar(i32)), Parameter("x", Scalar(f32))
    return KernelBuilder("dynamic", "sm_90a", threads=threads, parameters=counter, **options)


def dealt(k, *, ready=True, **options):
    counter, n, _ = k.arguments
    made = k.dynamic_tiles(
        options.pop("counter", counter), options.pop("count", n), options.pop("consumers", 2), **options
    )
    if ready:
        k.mbarrier.ready()
    return made


def roles(k, produce, consume):
    with k.producer(40):
        produce()
    with k.consumers(152):
        consume()


def enter(block):
    with block:
        pass


def nothing():
    pass


def with_options(**options):
    return lambda k: dealt(k, **options)


def placed_by(place):
    def program(k):
        made = dealt(k, place=place)
        roles(k, lambda: enter(made.draw()), lambda: enter(made.take()))

    return program


def shared_counter(k):
    dealt(k, counter=k.shared(i32, 1))


def floating_counter(k):
    dealt(k, counter=k.arguments[0].cast(f32))


def counter_of_two(k):
    dealt(k)
    dealt(k)


def counter_of_two_by_steps(k):
    counter, *_ = k.arguments
    dealt(k, counter=counter + 1)
    dealt(k, counter=counter + 1)


def in_a_cluster(k):
    dealt(KernelBuilder("clustered", "sm_90a", threads=384, cluster=2, parameters=k.signature.parameters))


def drawn_by_all(k):
    made = dealt(k)
    enter(made.draw())


def drawn_by_a_warp(k):
    made = dealt(k)
    with k.if_(k.warp_id() == 0):
        enter(made.draw())


def drawn_by_the_consumers(k):
    made = dealt(k)
    roles(k, nothing, lambda: enter(made.draw()))


def drawn_by_a_thread_of_the_consumers(k):
    made = dealt(k)

    def consume():
        with k.if_(k.thread_id() == 200):
            enter(made.draw())

    roles(k, nothing, consume)


def taken_by_the_producer(k):
    made = dealt(k)
    roles(k, lambda: enter(made.take()), nothing)


def taken_by_all(k):
    made = dealt(k)
    enter(made.take())


def taken_by_one_consumer(k):
    made = dealt(k)

    def consume():
        with k.if_(k.warpgroup_id() == 1):
            enter(made.take())

    roles(k, lambda: enter(made.draw()), consume)


def for_one_consumer_of_two(k):
    made = dealt(k, consumers=1)
    roles(k, lambda: enter(made.draw()), lambda: enter(made.take()))


def drawn_twice(k):
    made = dealt(k)

    def produce():
        enter(made.draw())
        enter(made.draw())

    roles(k, produce, nothing)


def drawn_in_a_loop(k):
    made = dealt(k)

    def produce():
        with k.range(3), made.draw():
            pass

    roles(k, produce, nothing)


def taken_twice(k):
    made = dealt(k)

    def consume():
        enter(made.take())
        enter(made.take())

    roles(k, lambda: enter(made.draw()), consume)


def not_ready(k):
    made = dealt(k, ready=False)
    roles(k, lambda: enter(made.draw()), nothing)


def made_after_ready(k):
    k.mbarrier.ready()
    not_ready(k)


def only_drawn(k):
    made = dealt(k)
    roles(k, lambda: enter(made.draw()), nothing)
    k.finish()


def only_taken(k):
    made = dealt(k)
    roles(k, nothing, lambda: enter(made.take()))
    k.finish()


def unused(k):
    dealt(k)
    k.finish()


def taken_before_the_place_is_known(k):
    made = dealt(k, place=lambda tile: (tile, tile))
    with k.if_(k.warpgroup_id() != 0):
        enter(made.take())


def left(how, *, side):
    def program(k):
        made = dealt(k)

        def leave(block):
            with block as tile:
                how(k, tile)

        produce = (lambda: leave(made.draw())) if side == "draw" else lambda: enter(made.draw())
        roles(k, produce, lambda: leave(made.take()))

    return program


def left_by_python(k):
    made = dealt(k)

    def produce():
        for _ in range(2):
            with made.draw():
                break

    roles(k, produce, nothing)


def place_that_leaves(k):
    def place(tile):
        k.break_if(tile == 3)
        return (tile,)

    placed_by(place)(k)


def value_of_the_other_side(k):
    made, kept = dealt(k), []

    def produce():
        with made.draw() as tile:
            kept.append(tile)

    def consume():
        with made.take():
            k.arguments[0][kept[0]] = 1

    roles(k, produce, consume)


MISUSES = {
    "a counter in shared memory": (shared_counter, "dynamic-tiles.counter", "not in global memory"),
    "a counter of f32": (floating_counter, "dynamic-tiles.counter", "of f32, not i32 or u32"),
    "a counter of two": (counter_of_two, "dynamic-tiles.counter", "counter + 1"),
    "a stepped counter of two": (counter_of_two_by_steps, "dynamic-tiles.counter", "other dynamic tiles"),
    "a number for a counter": (with_options(counter=3), "call.argument", "counter"),
    "no tiles": (with_options(count=0), "dynamic-tiles.count", "there cannot be 0 dynamic tiles"),
    "fewer than no tiles": (with_options(count=-4), "dynamic-tiles.count", "from 1 to 2147483647"),
    "a fraction of a tile": (with_options(count=1.5), "value.constant", "1.5"),
    "more tiles than i32 counts": (with_options(count=2**31), "value.constant", "2147483648"),
    "a count of f32": (lambda k: dealt(k, count=k.arguments[2]), "value.type", ".to(s32)"),
    "no mailbox": (with_options(mailboxes=0), "dynamic-tiles.mailboxes", "0 mailboxes"),
    "a half mailbox": (with_options(mailboxes=2.5), "dynamic-tiles.mailboxes", "Python integer"),
    "mailboxes by a value": (lambda k: dealt(k, mailboxes=k.arguments[1]), "dynamic-tiles.mailboxes", "Python integer"),
    "no consumers": (with_options(consumers=0), "dynamic-tiles.consumers", "0 consumer warpgroups, and 2 can take"),
    "too many consumers": (with_options(consumers=3), "dynamic-tiles.consumers", "k.dynamic_tiles(counter, count, 2)"),
    "a value for consumers": (lambda k: dealt(k, consumers=k.arguments[1]), "call.argument", "consumers"),
    "one consumer of two": (for_one_consumer_of_two, "dynamic-tiles.consumers", "(counter, count, 2)"),
    "taken by one consumer": (taken_by_one_consumer, "dynamic-tiles.consumers", "128 threads come here"),
    "taken by all": (taken_by_all, "dynamic-tiles.consumers", "384 threads come here"),
    "a cluster": (in_a_cluster, "dynamic-tiles.cluster", "a cluster of 2 CTAs"),
    "drawn by all": (drawn_by_all, "dynamic-tiles.role", "tiles.draw() is for one producer thread"),
    "drawn by a warp": (drawn_by_a_warp, "dynamic-tiles.role", ", which 32 threads run"),
    "drawn by the consumers": (drawn_by_the_consumers, "dynamic-tiles.role", "draw in `with k.producer(...)`"),
    "drawn by a consumer": (drawn_by_a_thread_of_the_consumers, "dynamic-tiles.role", "tiles.draw()"),
    "taken by the producer": (taken_by_the_producer, "dynamic-tiles.role", "take in `with k.consumers(...)`"),
    "drawn twice": (drawn_twice, "dynamic-tiles.once", "tiles.draw() is called a second time"),
    "taken twice": (taken_twice, "dynamic-tiles.once", "tiles.take() is called a second time"),
    "drawn in a loop": (drawn_in_a_loop, "dynamic-tiles.once", "is in the range block"),
    "not ready": (not_ready, "pipeline.not-ready", "after the last k.dynamic_tiles(...)"),
    "made after ready": (made_after_ready, "pipeline.not-ready", "tiles.draw() waits at mbarriers"),
    "only drawn": (only_drawn, "dynamic-tiles.unused", "drawn, and never taken"),
    "only taken": (only_taken, "dynamic-tiles.unused", "taken, and never drawn"),
    "unused": (unused, "dynamic-tiles.unused", "neither drawn nor taken"),
    "a place that is no tuple": (placed_by(lambda tile: tile), "dynamic-tiles.place", "not a tuple of values"),
    "a place of nothing": (placed_by(lambda _: ()), "dynamic-tiles.place", "not a tuple of values"),
    "a list for a place": (placed_by(lambda tile: [tile, 1]), "dynamic-tiles.place", "not a tuple of values"),
    "a place of words": (placed_by(lambda tile: (tile, "left")), "value.kind", "left"),
    "a place of f32": (placed_by(lambda tile: (tile.to(f32),)), "dynamic-tiles.place", "a part of f32"),
    "a place of i64": (placed_by(lambda tile: (tile, tile.to(nvb.i64))), "dynamic-tiles.place", ".to(nvb.i32)"),
    "a place that leaves": (place_that_leaves, "dynamic-tiles.left", "break_if leaves the place() block"),
    "taken before the place": (taken_before_the_place_is_known, "dynamic-tiles.place", "comes before tiles.draw()"),
    "draw, left by break_if": (
        left(lambda k, tile: k.break_if(tile > 3), side="draw"),
        "dynamic-tiles.left",
        "break_if",
    ),
    "draw, left by continue_": (left(lambda k, _: k.continue_(), side="draw"), "dynamic-tiles.left", "tiles.draw()"),
    "take, left by break_": (left(lambda k, _: k.break_(), side="take"), "dynamic-tiles.left", "tiles.take() block"),
    "take, left by return_if": (
        left(lambda k, tile: k.return_if(tile > 3), side="take"),
        "dynamic-tiles.left",
        "return_",
    ),
    "take, left by continue_if": (
        left(lambda k, tile: k.continue_if(tile > 3), side="take"),
        "dynamic-tiles.left",
        "continue_if",
    ),
    "left by Python": (left_by_python, "control.left", "with k.if_(condition):"),
    "a value of the other side": (value_of_the_other_side, "value.scope", "place= to k.dynamic_tiles"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_mistake_is_a_diagnostic_with_its_fix(name):
    program, rule, text = MISUSES[name]
    with pytest.raises(nvb.DiagnosticError) as error:
        program(builder())
    assert {one.rule_id for one in error.value.diagnostics} == {rule}
    assert text in said(*error.value.diagnostics)
