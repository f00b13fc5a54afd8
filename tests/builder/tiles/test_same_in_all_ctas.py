"""What all CTAs of a grid share: the tiles that they draw from a counter, and the steps that they have shares of."""

from __future__ import annotations

import pytest

from nvbackend import f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.runtime import assert_refused, rules

PARAMETERS = [
    *(Parameter(name, Pointer(i32)) for name in ("counter", "numbers")),
    *(Parameter(name, Scalar(i32)) for name in ("tiles", "steps")),
    Parameter("memory", Pointer(f32)),
    Parameter("flags", Pointer(u32)),
]
OF_A_CTA = {
    "a block": lambda k: k.block_id(),
    "a row of blocks": lambda k: k.block_id("z") * 4,
    "what is left": lambda k: k.arguments[2] - k.block_id() * 3,
    "a minimum": lambda k: k.math.min(k.arguments[2], k.block_id()),
}
OF_A_THREAD = {"a warp": lambda k: k.warp_id(), "a lane": lambda k: k.lane_id() + k.arguments[2]}
OF_ALL = {
    "a constant": lambda k: k.const(3, i32),
    "an argument": lambda k: k.arguments[2] * 2,
    "a count of CTAs": lambda k: k.block_count() * k.block_count("y"),
    "a number in memory": lambda k: k.arguments[1][k.arguments[3]],
    "a variable": lambda k: k.var(k.arguments[3]).value,
}


def builder():
    k = KernelBuilder("k", "sm_90a", threads=256, parameters=PARAMETERS)
    return k, *k.arguments


def both(k, number):
    """The number as tiles to draw, as tiles and as steps to share."""
    counter, *_ = k.arguments
    return [
        lambda: k.dynamic_tiles(counter, number, 1),
        lambda: k.stream_k(number, 4),
        lambda: k.stream_k(4, number),
    ]


@pytest.mark.parametrize("name", [*OF_A_CTA, *OF_A_THREAD])
def test_numbers_of_a_cta_or_a_thread_are_refused(name):
    k, *_ = builder()
    number, whom = {**OF_A_CTA, **OF_A_THREAD}[name](k), "CTAs" if name in OF_A_CTA else "threads of a CTA"
    for rule, action in zip(("dynamic-tiles", "shares", "shares"), both(k, number), strict=True):
        assert_refused(action, f"{rule}.parted", f"not the same in all {whom}")


@pytest.mark.parametrize("name", OF_ALL)
def test_numbers_of_the_grid_are_taken(name):
    k, *_ = builder()
    for action in both(k, OF_ALL[name](k)):
        assert rules(action) == []


def test_a_cluster_has_a_number_of_its_own():
    k = KernelBuilder("k", "sm_90a", threads=256, cluster=2, parameters=PARAMETERS)
    assert_refused(lambda: k.stream_k(k.cluster.id() + 1, 4), "shares.parted", "in all clusters")


@pytest.mark.parametrize("name", [*OF_A_CTA, *OF_A_THREAD, *OF_ALL])
def test_one_place_for_all_ctas(name):
    """A counter and flags are accessed by a thread of each CTA, and all of them leave and add sums alike."""
    k, counter, _, tiles, steps, memory, flags = builder()
    number, share = {**OF_A_CTA, **OF_A_THREAD, **OF_ALL}[name](k), k.stream_k(tiles, steps)
    actions = {
        "dynamic-tiles.parted": lambda: k.dynamic_tiles(counter + number, tiles, 1),
        "shares.parted": lambda: share.partial_sums(memory + number, flags),
    }
    for rule, action in actions.items():
        assert rules(action) == ([rule] if name in OF_A_CTA else [])
    assert rules(lambda: share.partial_sums(memory, flags + number)) == (["shares.parted"] if name in OF_A_CTA else [])


def test_a_place_takes_the_number_of_a_tile_alone():
    k, counter, _, tiles, *_ = builder()
    drawn = k.dynamic_tiles(counter, tiles, 1, place=lambda tile, other: (tile, other))
    k.mbarrier.ready()

    def draw():
        with k.producer(40), drawn.draw():
            pass

    assert_refused(draw, "call.argument", "cannot be called with 1 argument")
