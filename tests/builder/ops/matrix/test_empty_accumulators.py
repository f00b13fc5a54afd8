"""Accumulators that no mma writes because memory says so read as 0; other kernels have no instruction more."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32

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


def of_the_caller(_k, _counts, _group, steps):
    return (steps,)


def of_the_program(_k, _counts, _group, _steps):
    return (3,)


@pytest.mark.parametrize("element", [f32, f16])
@pytest.mark.parametrize("count_of", [of_memory, of_two_places, of_one_lane])
def test_a_group_without_steps_is_zero(count_of, element):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-2, 3, (rows, 16)).astype(np.float16) for rows in (64, 8))
    given = [one.arrange(matrix).view(np.float16) for one, matrix in ((ROWS, a), (COLUMNS, b))]
    out = np.full((len(GROUPS), 64, 8), 7, element.numpy_dtype())
    compiled = summed(count_of, element).compile(assemble=False)
    loaded = nvb.runtime.load(compiled, device="simulator", checks=True)
    loaded.launch(1, *given, np.array(GROUPS, np.int32), len(GROUPS), 0, out)
    product = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.array_equal(out, np.stack([count * product for count in GROUPS]))


def test_registers_that_are_set_are_read_as_they_are():
    product = nvb.wgmma.mma_async("m64n8k16", f16, f16, f32)

    def selects(*, is_set):
        k = nvb.KernelBuilder("set", "sm_90a", threads=128, parameters=[nvb.Parameter("counts", nvb.Pointer[i32])])
        tiles = [k.shared_tile(layout) for layout in (ROWS, COLUMNS)]
        acc = k.wgmma.accumulator(8, f32)
        acc.clear()
        with k.range(k.arguments[0][0]), k.wgmma.group():
            k.wgmma.mma_async(acc, *tiles, product)
        if is_set:
            acc.set([1.0] * 4)
        before = str(k.function).count("= select")
        acc.values()
        return str(k.function).count("= select") - before

    assert [selects(is_set=False), selects(is_set=True)] == [4, 0]


def selects_of(nests, depth):
    """How many registers are read as 0 where no mma was: each mma is in a nest of loops, of which the last nest's outer
    `depth` are open still. Memory says how often a loop "m" runs, the caller an "n", the program a "3"."""
    parameters = [nvb.Parameter("counts", nvb.Pointer[i32]), nvb.Parameter("n", nvb.Scalar(i32))]
    k = nvb.KernelBuilder("nested", "sm_90a", threads=128, parameters=parameters)
    counts, n = k.arguments
    tiles = [k.shared_tile(layout) for layout in (ROWS, COLUMNS)]
    acc = k.wgmma.accumulator(8, f32)

    @contextlib.contextmanager
    def nested(loops):
        with contextlib.ExitStack() as stack:
            for loop in loops:
                stack.enter_context(k.range({"m": counts[0], "n": n, "3": 3}[loop]))
            yield

    def multiply(loops):
        with nested(loops), k.wgmma.group():
            k.wgmma.mma_async(acc, *tiles, nvb.wgmma.mma_async("m64n8k16", f16, f16, f32))

    acc.clear()
    for loops in nests[:-1]:
        multiply(loops)
    with nested(nests[-1][:depth]):
        multiply(nests[-1][depth:])
        before = str(k.function).count("= select")
        acc.values()
        return str(k.function).count("= select") - before


NESTS = [*itertools.product(("", "m", "n", "3m", "m3"), repeat=2), ("m",), ("n3",), ("m3",), ("n3m",), ("3mn",)]


@pytest.mark.parametrize("nests", NESTS, ids=", ".join)
def test_each_mma_is_in_a_loop_that_memory_ends_and_that_is_over(nests):
    for depth in range(len(nests[-1]) + 1):
        over = [*nests[:-1], nests[-1][depth:]]
        assert selects_of(nests, depth) == (4 if all("m" in loops for loops in over) else 0), (nests, depth)


@pytest.mark.parametrize("count_of", [of_the_caller, of_the_program])
def test_it_costs_nothing_where_memory_does_not_decide(count_of):
    assert "selp.f32" in summed(of_memory).compile(assemble=False).ptx
    assert "selp" not in summed(count_of).compile(assemble=False).ptx
