"""Accumulators that no mma wrote to read as 0; where one certainly did, there is no instruction more."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32
from nvbackend.intrinsics.mma import wgmma

ROWS, COLUMNS = (SmemLayout(Major.K, SwizzleMode.B32, f16, rows, 16) for rows in (64, 8))
SOURCE = nvb.Pointer[f16]
GROUPS = [2, 0, 3, 0]


def summed(count_of, element=f32):
    """A kernel that adds one product to each group's sum as often as `count_of(k, counts, group, steps)` says."""
    product = nvb.wgmma.mma_async("m64n8k16", f16, f16, element)

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, a: SOURCE, b: SOURCE, counts: nvb.Pointer[i32], groups: i32, steps: i32, out: nvb.Pointer[element]):
        tiles = []
        for layout, source, name in ((ROWS, a, "a"), (COLUMNS, b, "b")):
            tile = k.shared_tile(layout, name=name)
            for first in range(0, layout.bytes // 2, 128):
                tile.address.cast(f16)[first + k.thread_id()] = source[first + k.thread_id()]
            tiles.append(tile)
        k.fence.proxy_async()
        k.barrier.sync()
        acc = k.wgmma.accumulator(8, element, name="acc")
        with k.range(groups, name="group") as group:
            acc.clear()
            with k.range(*count_of(k, counts, group, steps)), k.wgmma.group():
                k.wgmma.mma_async(acc, *tiles, product)
            k.store_accumulator(acc, out + group * 512, 8)

    return kernel


def of_memory(_k, counts, group, _steps):
    return (counts[group],)


def of_two_places(_k, counts, group, _steps):
    return group, group + counts[group]


def of_one_lane(k, counts, group, _steps):
    return (k.uniform(counts[group]),)


def of_the_caller(_k, _counts, group, steps):
    return (steps * (3 - group) - group % 2 * 4,)


def of_the_program(_k, _counts, _group, _steps):
    return (3,)


@pytest.mark.parametrize("element", [f32, f16])
@pytest.mark.parametrize("count_of", [of_memory, of_two_places, of_one_lane, of_the_caller])
def test_a_group_without_steps_is_zero(count_of, element):
    steps = 1
    counts = [max(0, *of_the_caller(None, None, group, steps)) for group in range(4)]
    if count_of is not of_the_caller:
        counts = GROUPS
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-2, 3, (rows, 16)).astype(np.float16) for rows in (64, 8))
    given = [one.arrange(matrix).view(np.float16) for one, matrix in ((ROWS, a), (COLUMNS, b))]
    out = np.full((len(GROUPS), 64, 8), 7, element.numpy_dtype())
    compiled = summed(count_of, element).compile(assemble=False)
    loaded = nvb.runtime.load(compiled, device="simulator", checks=True)
    loaded.launch(1, *given, np.array(GROUPS, np.int32), len(GROUPS), steps, out)
    product = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.array_equal(out, np.stack([count * product for count in counts]))


def builder():
    """A kernel that has a pointer to numbers and a number, tiles, and an accumulator."""
    parameters = [nvb.Parameter("counts", nvb.Pointer[i32]), nvb.Parameter("n", nvb.Scalar(i32))]
    k = nvb.KernelBuilder("nested", "sm_90a", threads=128, parameters=parameters)
    tiles = [k.shared_tile(layout) for layout in (ROWS, COLUMNS)]
    acc = k.wgmma.accumulator(8, f32)

    def multiply(**options):
        with k.wgmma.group():
            k.wgmma.mma_async(acc, *tiles, nvb.wgmma.mma_async("m64n8k16", f16, f16, f32), **options)

    return k, acc, multiply


def zeroings(k):
    """How often registers are set to 0 if no mma wrote to them."""
    return str(k.function).count(wgmma.WRITTEN + ":")


def test_what_is_set_or_read_before_is_written():
    k, acc, multiply = builder()
    with k.range(k.arguments[1]):
        multiply()
    acc.set([1.0] * 4)
    acc.values()
    assert zeroings(k) == 0
    acc.clear()
    with k.range(k.arguments[1]):
        multiply()
    for register in range(4):
        acc[register]
    acc.elements()
    assert zeroings(k) == 1


def zeroings_of(nests, depth):
    """How many reads set registers to 0: each mma is in a nest of loops, of which the last one's outer
    `depth` are open still. Memory says how often a loop "m" runs, the caller an "n", the program a "3" and a "0"."""
    k, acc, multiply = builder()
    counts, n = k.arguments

    @contextlib.contextmanager
    def nested(loops):
        with contextlib.ExitStack() as stack:
            for loop in loops:
                stack.enter_context(k.range({"m": counts[0], "n": n, "3": 3, "0": 0}[loop]))
            yield

    acc.clear()
    for loops in nests[:-1]:
        with nested(loops):
            multiply()
    with nested(nests[-1][:depth]):
        with nested(nests[-1][depth:]):
            multiply()
        acc.values()
        return zeroings(k)


NESTS = [*itertools.product(("", "m", "n", "3m", "3"), repeat=2), ("m",), ("n3",), ("33",), ("n3m",), ("3mn",), ("30",)]


@pytest.mark.parametrize("nests", NESTS, ids=", ".join)
def test_each_mma_is_in_a_loop_that_may_have_no_round_and_that_is_over(nests):
    for depth in range(len(nests[-1]) + 1):
        over = [*nests[:-1], nests[-1][depth:]]
        assert zeroings_of(nests, depth) == all(set(loops) & set("mn0") for loops in over), (nests, depth)


@pytest.mark.parametrize("leave", ["break_if", "continue_if"])
def test_rounds_that_threads_leave_count_as_none(leave):
    k, acc, multiply = builder()
    with k.range(3):
        getattr(k, leave)(k.arguments[1] == 3)
        multiply()
    acc.values()
    assert zeroings(k) == 1


def test_a_branch_may_leave_it_out():
    k, acc, multiply = builder()
    with k.if_(k.arguments[1] == 3):
        multiply()
        acc.values()
        assert zeroings(k) == 0
    acc.values()
    assert zeroings(k) == 1


def test_what_is_certain_costs_nothing():
    assert wgmma.WRITTEN in summed(of_memory).compile(assemble=False).ptx
    assert wgmma.WRITTEN not in summed(of_the_program).compile(assemble=False).ptx


def multiplied(body):
    """What a kernel writes of A B^T, here J J^T: `body(k, acc, multiply, n, keep)` gives its one number to `keep`."""
    product = nvb.wgmma.mma_async("m64n8k16", f16, f16, f32)

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, n: i32, out: nvb.Pointer[f32]):
        tiles = []
        for layout in (ROWS, COLUMNS):
            tile = k.shared_tile(layout)
            for first in range(0, layout.bytes // 2, 128):
                tile.address.cast(f16)[first + k.thread_id()] = 1.0
            tiles.append(tile)
        k.fence.proxy_async()
        k.barrier.sync()
        acc = k.wgmma.accumulator(8, f32)
        acc.fill(5.0)
        at = k.var(0, i32)

        def multiply(**options):
            with k.wgmma.group():
                k.wgmma.mma_async(acc, *tiles, product, **options)

        def keep(number):
            with k.if_(k.thread_id() == 0):
                out[at.value] = number
            at.set(at + 1)

        body(k, acc, multiply, n, keep)

    out = np.full(8, -1, np.float32)
    loaded = nvb.runtime.load(kernel.compile(assemble=False), device="simulator", checks=True)
    return lambda n: (loaded.launch(1, n, out), out.copy())[1].tolist()


def test_an_mma_that_is_to_add_adds_to_zero_where_none_was_before():
    def body(k, acc, multiply, n, keep):
        acc.clear()
        with k.range(n):
            multiply()
        multiply(accumulate=True)
        keep(acc[0])
        acc.clear()
        with k.range(n):
            multiply()
        multiply(accumulate=n < 9)
        keep(acc[0])

    run = multiplied(body)
    assert [run(n)[:2] for n in (0, 1, 2, 9)] == [[16, 16], [32, 32], [48, 48], [160, 16]]


@contextlib.contextmanager
def four_rounds(k):
    turn = k.var(0, i32)
    with k.loop():
        k.break_if(turn == 4)
        yield turn
        turn.set(turn + 1)


@pytest.mark.parametrize("rounds", [lambda k: k.range(4), four_rounds])
def test_a_read_that_comes_again_after_a_clear_reads_zero(rounds):
    """The read comes before the clear in the text, and after it in the next round."""

    def body(k, acc, multiply, n, keep):
        with rounds(k) as turn:
            keep(acc[0])
            acc.clear()
            with k.if_(turn == n):
                multiply()

    run = multiplied(body)
    assert run(1)[:4] == [5, 0, 16, 0]
    assert run(9)[:4] == [5, 0, 0, 0]


def test_a_read_changes_nothing_for_the_next_read_and_mma():
    def body(k, acc, multiply, n, keep):
        acc.clear()
        with k.range(n):
            multiply()
        keep(acc[0])
        keep(acc[0])
        multiply()
        keep(acc[0])

    run = multiplied(body)
    assert [run(n)[:3] for n in (0, 1, 3)] == [[0, 0, 16], [16, 16, 32], [48, 48, 64]]


def test_what_was_just_cleared_is_zero_whatever_it_held():
    def body(k, acc, multiply, n, keep):
        multiply()
        keep(acc[0])
        acc.clear()
        keep(acc[0])
        multiply()
        keep(acc[0])

    assert multiplied(body)(1)[:3] == [21, 0, 16]
    k, acc, multiply = builder()
    multiply()
    acc.clear()
    acc.values()
    assert zeroings(k) == 0
