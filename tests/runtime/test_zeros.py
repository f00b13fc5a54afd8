"""Counters of tiles and flags of partial sums: 0 at each launch in the simulator, and after it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32, i32, u32
from nvbackend.runtime.arguments.zeros import zeros_of
from tests.support.runtime import assert_refused, rules

Counter, Count = nvb.Pointer(i32), i32(minimum=1)


@nvb.kernel("sm_90a", threads=256)
def drawn(k, counter: Counter, out: Counter, count: Count, ctas: i32, *, place: int = 3):
    """CTAs before `ctas` count each tile that they draw."""
    tiles = k.dynamic_tiles(counter + place, count, 1)
    k.mbarrier.ready()
    k.return_if(k.block_id() >= ctas)
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232), tiles.take() as tile:
        k.atomic.add(out + tile, 1)


@nvb.kernel("sm_80", threads=32)
def summed(k, memory: nvb.Pointer[f32], flags: nvb.Pointer[u32], out: nvb.Pointer[f32], tiles: Count, ctas: i32):
    """Each tile is the number of its steps, three, added by CTAs before `ctas`."""
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", nvb.f16, nvb.f16, f32))
    share, acc = k.stream_k(tiles, 3), mma.accumulator()
    sums = share.partial_sums(memory, flags + 1)
    k.return_if(k.block_id() >= ctas)
    with share.pieces() as piece:
        acc.set([(piece.end - piece.first).to(f32)] * len(acc.elements()))
        with sums.whole(acc, piece):
            acc.elements().store(k.tensor(out + piece.tile * 128, nvb.layout.Layout((16, 8), (8, 1))))


@cache
def loaded(kernel, **options):
    return nvb.runtime.load(kernel.compile(assemble=False), device="simulator", **options)


def draw(counter, grid=3, ctas=9, **options):
    out = np.zeros(7, np.int32)
    loaded(drawn, **options).launch(grid, counter, out, 7, ctas)
    return out


def add(flags, grid=4, ctas=9):
    out = np.zeros((3, 128), np.float32)
    loaded(summed).launch(grid, np.full((grid, 128), 7, np.float32), flags, out, 3, ctas)
    return out


def test_zeros_are_taken_and_left():
    counter, flags = np.array([9, 9, 9, 0, 9], np.int32), np.array([9, 0, 0, 0, 0, 9], np.uint32)
    for _ in range(2):
        assert set(draw(counter)) == {128}
        assert counter.tolist() == [9, 9, 9, 0, 9]  # what lies beside it does not matter
        assert np.all(add(flags) == 3)
        assert flags.tolist() == [9, 0, 0, 0, 0, 9]


@pytest.mark.parametrize("value", [1, 200, -5])
def test_a_counter_that_is_not_0_is_named_with_its_place(value):
    counter = np.array([0, 0, 0, value], np.int32)
    assert_refused(lambda: draw(counter), "launch.not-zero", f"argument counter has {value} at its byte 12")
    if value > 0:
        assert draw(counter, checks=False).min() == 0  # as on a GPU: some tile is never computed


@pytest.mark.parametrize("number", [1, 4])
def test_a_flag_that_is_up_is_named(number):
    flags = np.zeros(6, np.uint32)
    flags[number] = 1
    assert_refused(lambda: add(flags), "launch.not-zero", f"byte {4 * number}; the flags of partial sums")
    if number == 4:
        assert np.all(add(flags, grid=3) == 3)  # it is of no CTA of this grid


def test_ctas_that_return_early_leave_other_numbers():
    counter, flags = np.zeros(4, np.int32), np.zeros(6, np.uint32)
    assert_refused(lambda: draw(counter, ctas=2), "launch.left-over", "the counter of dynamic tiles should be 0 again")
    assert_refused(
        lambda: add(flags, grid=5, ctas=4), "launch.left-over", "let every CTA of the grid come to share.pieces()"
    )


def test_ctas_without_a_tile_may_return():
    counter = np.zeros(4, np.int32)
    assert set(draw(counter, grid=9, ctas=7)) == {128}


def test_a_short_array_and_an_unknown_place_are_left_to_others():
    @nvb.kernel("sm_90a", threads=256)
    def somewhere(k, counter: Counter, out: Counter, count: Count):
        tiles = k.dynamic_tiles(counter + out[0], count, 1)
        k.mbarrier.ready()
        with k.producer(40), tiles.draw():
            pass
        with k.consumers(232), tiles.take() as tile:
            k.atomic.add(out + tile, 1)

    assert zeros_of(somewhere.compile(assemble=False)) == []
    assert rules(lambda: draw(np.zeros(3, np.int32))) == ["simulator.bounds"]


def test_kernels_of_a_module_have_their_own():
    definitions = [drawn, drawn.with_(place=0, name="first")]
    module = nvb.runtime.load(nvb.compile_module(definitions, assemble=None), device="simulator")
    counter, out = np.array([0, 0, 0, 5], np.int32), np.zeros(7, np.int32)
    module["first"].launch(3, counter, out, 7, 9)
    assert set(out) == {128}
    assert_refused(lambda: module["drawn"].launch(3, counter, out, 7, 9), "launch.not-zero", "5 at its byte 12")


def test_arguments_of_an_attached_function_may_have_other_names():
    types = {"out": nvb.Pointer(i32), "counter": nvb.Pointer(i32), "count": nvb.Scalar(i32)}
    pointer = ir.PointerType(addrspace=1)
    kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, ir.IntType(32)])
    function = ir.Function(ir.Module("module"), kind, "attached")
    function.calling_convention = "ptx_kernel"
    llvm = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(llvm, "sm_90a", threads=256, parameters=[nvb.Parameter(*each) for each in types.items()])
    out, counter, count = k.arguments
    tiles = k.dynamic_tiles(counter, count, 1)
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232), tiles.take() as tile:
        k.atomic.add(out + tile, 1)
    llvm.ret_void()
    k.verify()
    kernel, numbers = nvb.runtime.load(k.finish().compile(assemble=False), device="simulator"), np.zeros(7, np.int32)
    kernel.launch(3, numbers, np.zeros(1, np.int32), 7)
    assert set(numbers) == {128}
    wrong = np.full(1, 2, np.int32)
    assert_refused(lambda: kernel.launch(3, numbers, wrong, 7), "launch.not-zero", "argument counter has 2")


@nvb.kernel("sm_90a", threads=256)
def drawn_twice(k, first: Counter, second: Counter, out: Counter, count: Count, *, apart: int = 1):
    every = [k.dynamic_tiles(counter, count, 1) for counter in (first, second + apart)]
    k.mbarrier.ready()
    with k.producer(40):
        for tiles in every:
            with tiles.draw():
                pass
    with k.consumers(232):
        for tiles in every:
            with tiles.take() as tile:
                k.atomic.add(out + tile, 1)


def test_two_counters_are_two_places():
    """Of arguments it is known at the launch: CTAs that are early would count in the second walk as in the first."""
    counters, out = np.zeros(4, np.int32), np.zeros(7, np.int32)
    loaded(drawn_twice).launch(3, counters, counters, out, 7)
    assert set(out) == {256}
    kernel = loaded(drawn_twice.with_(apart=0))
    text = "arguments first and second of kernel drawn_twice are one place"
    assert_refused(lambda: kernel.launch(3, counters, counters, out, 7), "launch.one-counter", text)
    kernel.launch(3, counters, np.zeros(4, np.int32), out, 7)
    assert set(out) == {512}
