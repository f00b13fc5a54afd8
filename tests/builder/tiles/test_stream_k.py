"""Stream-K: each step of each tile is in one piece, and tiles are the sums of their pieces."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import f16, f32, i32, s8, s32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.tiles.split_k.stream_k import PartialSums, StreamK
from nvbackend.layout import Layout
from nvbackend.signature import Parameter, Pointer
from tests.support.runtime import rules

ROW = 64
"""Entries of a CTA's list of pieces, three numbers for each."""
SUMS = {"f32": (f16, f32, np.float32), "f16": (f16, f16, np.float16), "s32": (s8, s32, np.int32)}


@nvb.kernel("sm_90a", threads=32, cluster=lambda cluster: cluster)
def listed(k, out: nvb.Pointer[i32], tiles: i32, steps: i32, *, cluster: int = 1):
    """The pieces of each CTA, in their order, and how many they are."""
    count, own = k.var(0), out + k.block_id() * ROW
    with k.stream_k(tiles, steps).pieces() as piece, k.if_(k.lane_id() == 0):
        for place, value in enumerate(piece):
            own[1 + 3 * count + place] = value
        count += 1
    with k.if_(k.lane_id() == 0):
        own[0] = count


@cache
def loaded(kernel, **constants):
    compiled = kernel.compile(assemble=False, **constants)
    assert compiled.diagnostics == ()
    return nvb.runtime.load(compiled, device="simulator")


def pieces_of(tiles, steps, grid, cluster=1):
    out = np.full((grid, ROW), -1, np.int32)
    loaded(listed, cluster=cluster).launch(grid, out, tiles, steps)
    return [[tuple(row[1 + 3 * place : 4 + 3 * place].tolist()) for place in range(row[0])] for row in out]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 7), st.integers(0, 9), st.integers(1, 12))
def test_each_step_of_each_tile_is_in_one_piece(tiles, steps, grid):
    every = pieces_of(tiles, steps, grid)
    seen = sorted((tile, step) for own in every for tile, first, end in own for step in range(first, end))
    assert seen == [(tile, step) for tile in range(tiles) for step in range(steps)]
    sizes = [sum(end - first for _, first, end in own) for own in every]
    busy = [size for size in sizes if size]
    assert len(busy) == min(grid, tiles * steps)
    assert max(busy, default=0) - min(busy, default=0) <= 1
    for own in every:
        assert own == sorted(own, reverse=True)  # the last tile first
        assert all(first == 0 for _, first, _ in own[:-1])
        assert all(end == steps for _, _, end in own[1:])


def test_the_ctas_of_a_cluster_have_the_same_pieces():
    every = pieces_of(5, 7, 6, cluster=2)
    assert every[::2] == every[1::2] == pieces_of(5, 7, 3)


def pointer(kind: str) -> nvb.Pointer:
    return nvb.Pointer(SUMS[kind][1])


Sums = Annotated[nvb.Pointer, pointer]


def weight(tile, first, end):
    """A sum over the steps of a piece, which says the tile and the steps: small integers, so that every type has it."""
    return (end - first) * (tile + 1) + (end * (end - 1) - first * (first - 1)) // 2


@nvb.kernel("sm_90a", threads=lambda warpgroups: 128 * (1 + warpgroups), min_ctas=1, cluster=lambda cluster: cluster)
def summed(
    k, memory: Sums, flags: nvb.Pointer[u32], out: Sums, tiles: i32, steps: i32,
    *, kind: str = "f32", warpgroups: int = 1, cluster: int = 1,
):  # fmt: skip
    """Each tile is of one number, the sum of its steps, and 64 x 16 for each warpgroup of each CTA of a cluster."""
    operand, element, _ = SUMS[kind]
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n16k{256 // operand.bits}", operand, operand, element))
    share = k.stream_k(tiles, steps)
    with k.producer(registers=40):
        pass
    with k.consumers(registers=232) as warpgroup:
        acc, sums = mma.accumulator(), share.partial_sums(memory, flags, warpgroup)
        with share.pieces() as piece:
            acc.fill(weight(*piece).to(element))
            with sums.whole(acc, piece):
                place = (piece.tile * cluster + k.cluster.rank()) * warpgroups + warpgroup
                acc.elements().store(k.tensor(out + place * 1024, Layout((64, 16), (16, 1))))


def assert_summed(tiles, steps, grid, kind="f32", warpgroups=1, cluster=1, kernel=None):
    """Twice with the same memory: the flags are left as they were."""
    dtype = SUMS[kind][2]
    kernel = kernel or loaded(summed, kind=kind, warpgroups=warpgroups, cluster=cluster)
    memory, flags = np.zeros((grid, warpgroups, 1024), dtype), np.zeros(grid * warpgroups, np.uint32)
    for _ in range(2):
        out = np.zeros((tiles, cluster * warpgroups, 1024), dtype)
        kernel.launch(grid, memory, flags, out, tiles, steps)
        assert not flags.any()
        for tile in range(tiles):
            assert np.all(out[tile] == weight(tile, 0, steps)), tile


@settings(max_examples=16, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 9), st.sampled_from(list(SUMS)))
def test_tiles_are_the_sums_of_their_pieces(tiles, steps, grid, kind):
    assert_summed(tiles, steps, grid, kind)


def test_each_warpgroup_and_each_cta_of_a_cluster_has_a_place_of_its_own():
    assert_summed(2, 5, 3, warpgroups=2)
    assert_summed(3, 4, 10, cluster=2)


def test_all_threads_of_a_cta_may_hold_a_tile_of_mma_sync():
    @nvb.kernel("sm_80", threads=64)
    def warps(k, memory: nvb.Pointer[f32], flags: nvb.Pointer[i32], out: nvb.Pointer[f32], tiles: i32, steps: i32):
        mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (2, 1))
        share, acc = k.stream_k(tiles, steps), mma.accumulator()
        sums = share.partial_sums(memory, flags)
        with share.pieces() as piece:
            acc.set([weight(*piece).to(f32)] * len(acc.elements()))
            with sums.whole(acc, piece):
                acc.elements().store(k.tensor(out + piece.tile * 256, Layout((32, 8), (8, 1))))

    memory, flags, out = np.zeros((5, 256), np.float32), np.zeros(5, np.int32), np.zeros((3, 256), np.float32)
    loaded(warps).launch(5, memory, flags, out, 3, 4)
    assert not flags.any()
    assert [set(tile.tolist()) for tile in out] == [{weight(tile, 0, 4)} for tile in range(3)]


def test_several_accumulators_of_a_warpgroup_are_left_together():
    @nvb.kernel("sm_90a", threads=128)
    def two(k, memory: nvb.Pointer[f32], flags: nvb.Pointer[u32], out: nvb.Pointer[f32], tiles: i32, steps: i32):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n8k16", f16, f16, f32), tile=(128, 8))
        share, acc = k.stream_k(tiles, steps), mma.accumulators()
        sums = share.partial_sums(memory, flags)
        with share.pieces() as piece:
            acc.fill(weight(*piece).to(f32))
            with sums.whole(acc, piece):
                acc.elements().store(k.tensor(out + piece.tile * 1024, Layout((128, 8), (8, 1))))

    memory, flags, out = np.zeros((4, 1024), np.float32), np.zeros(4, np.uint32), np.zeros((3, 1024), np.float32)
    loaded(two).launch(4, memory, flags, out, 3, 3)
    assert [set(tile.tolist()) for tile in out] == [{weight(tile, 0, 3)} for tile in range(3)]


def without_a_barrier(sums):
    """The flag is raised when one thread has left its sums."""


def without_order(sums, block, words):
    """The flag is taken without acquire."""
    k, (place, flag) = sums._k, sums._place_of(block, words)
    with k.if_(sums._thread == 0), k.loop():
        k.break_if(k.atomic.cas(flag, 1, 0) == 1)
    sums._meet()
    return [(word, place[index * sums._size]) for index, word in enumerate(words)]


def with_empty_shares(share, number):
    """As many shares as CTAs, even if there are fewer steps."""
    count = share._k.cluster.count()
    return (number.to(nvb.i64) * share._total.to(nvb.i64) // count.to(nvb.i64)).to(i32)


@pytest.mark.parametrize(
    ("part", "name", "mistake", "rule"),
    [
        (PartialSums, "_meet", without_a_barrier, "simulator.flag-barrier"),
        (PartialSums, "_taken", without_order, "simulator.flag-order"),
        (StreamK, "_first_of", with_empty_shares, "simulator.livelock"),
    ],
)
def test_a_mistake_in_the_exchange_is_seen(part, name, mistake, rule, monkeypatch):
    monkeypatch.setattr(part, name, mistake)
    compiled = summed.compile(assemble=False, cache=nvb.Cache.disabled())
    kernel = nvb.runtime.load(compiled, device="simulator")
    assert rule in rules(lambda: assert_summed(2, 3, 9, kernel=kernel))


def builder(threads=128, const=False, **options):
    kinds = {"memory": Pointer(f32, const=const), "flags": Pointer(u32), "halves": Pointer(f16)}
    parameters = [Parameter(name, kind) for name, kind in kinds.items()]
    k = KernelBuilder("k", "sm_90a", threads=threads, parameters=parameters, **options)
    return k, k.stream_k(8, 4), *k.arguments


def test_each_piece_is_left_or_added_once():
    k, share, memory, flags, _ = builder()
    acc = k.tiled_mma(nvb.wgmma.mma_async("m64n16k16", f16, f16, f32)).accumulator()
    acc.fill(0.0)
    sums = share.partial_sums(memory, flags)

    def whole(piece):
        with sums.whole(acc, piece):
            pass

    with share.pieces() as piece:
        with k.if_(piece.first > 0):
            assert rules(lambda: whole(piece)) == ["shares.piece"]
        with k.range(2):
            assert rules(lambda: whole(piece)) == ["shares.piece"]
        whole(piece)
        assert rules(lambda: whole(piece)) == ["shares.piece"]
        assert rules(k.break_) == ["pipeline.left"]
    assert rules(lambda: whole(piece)) == ["shares.piece"]
    assert repr(sums) == "<partial sums of 1 group(s) of 128 threads in <global address of f32, align 16>>"


@pytest.mark.parametrize(("where", "wanted"), [("before", ["shares.not-cleared"]), ("piece", []), ("step", [])])
def test_a_piece_does_not_begin_with_the_sums_of_the_one_before(where, wanted):
    k, share, memory, flags, _ = builder()
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n16k16", f16, f16, f32))
    acc, a, b = mma.accumulator(), k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    sums = share.partial_sums(memory, flags)
    if where == "before":
        acc.clear()
    with share.pieces() as piece:
        if where == "piece":
            acc.clear()
        with k.range(piece.first, piece.end):
            if where == "step":
                acc.set([value * 0.5 for value in acc.values()])
            with k.wgmma.group():
                mma.accumulate(acc, a, b)
        k.wgmma.wait_group(0, drains=[acc])

        def whole():
            with sums.whole(acc, piece):
                pass

        assert rules(whole) == wanted


def test_accumulators_of_several_atoms_are_cleared_too():
    k, share, memory, flags, _ = builder()
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n16k16", f16, f16, f32), tile=(128, 16))
    acc, a, b = mma.accumulators(), k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    sums = share.partial_sums(memory, flags)
    with share.pieces() as piece:
        acc[0, 0].clear()
        with k.wgmma.group():
            mma.accumulate(acc, a, b)
        k.wgmma.wait_group(0, drains=acc)
        assert rules(lambda: sums.whole(acc, piece).__enter__()) == ["shares.not-cleared"]


def test_rounds_of_a_loop_have_partial_sums_of_their_own():
    """With one place for all, a CTA would overwrite what another has not read."""
    k, share, memory, flags, _ = builder()
    acc = k.tiled_mma(nvb.wgmma.mma_async("m64n16k16", f16, f16, f32)).accumulator()
    acc.fill(0.0)
    sums = share.partial_sums(memory, flags)
    with k.range(3), share.pieces() as piece:
        assert rules(lambda: sums.whole(acc, piece).__enter__()) == ["shares.piece"]
    with k.range(3) as batch:
        own = share.partial_sums(memory + batch * 2**16, flags + batch * 64)
        with share.pieces() as piece, own.whole(acc, piece):
            pass


def test_sums_go_to_memory_of_their_type_and_flags_that_are_written():
    k, share, memory, flags, halves = builder()
    shared = k.shared(f32, 64)
    for wrong in ((shared, flags), (memory, k.shared(u32, 4)), (memory, halves)):
        assert rules(lambda wrong=wrong: share.partial_sums(*wrong)) == ["shares.memory"]
    acc = k.tiled_mma(nvb.wgmma.mma_async("m64n16k16", f16, f16, f32)).accumulator()
    sums = share.partial_sums(halves, flags)
    with share.pieces() as piece:
        assert rules(lambda: sums.whole(acc, piece).__enter__()) == ["shares.memory"]
    k, share, memory, flags, _ = builder(const=True)
    assert rules(lambda: share.partial_sums(memory, flags)) == ["shares.memory"]


@pytest.mark.parametrize(("tiles", "steps"), [(0, 4), (4, 0), (-1, 4), (2**16, 2**15)])
def test_numbers_of_tiles_and_steps_are_checked(tiles, steps):
    k, *_ = builder()
    assert rules(lambda: k.stream_k(tiles, steps)) == ["shares.count"]


def test_clusters_lie_along_x_and_groups_are_whole():
    assert rules(lambda: builder(cluster=(1, 2, 1))) == ["shares.cluster"]
    k, share, memory, flags, _ = builder(threads=256)
    with k.if_(k.warp_id() < 6):
        assert rules(lambda: share.partial_sums(memory, flags)) == ["shares.threads"]
        assert rules(lambda: share.partial_sums(memory, flags, k.warpgroup_id())) == ["shares.threads"]
