"""Sums that the CTAs of a cluster exchange: each has those of its columns, for every type and order of columns."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import f16, f32, i32, s8, s32
from nvbackend.builder.kernel.kernel import KernelBuilder
from tests.support.runtime import rules

TYPES = {"f32": (f16, f32), "f16": (f16, f16), "s32": (s8, s32)}
"""Operands and sums."""
NUMPY = {f16: np.float16, s8: np.int8, f32: np.float32, s32: np.int32}


def box_of_a(warpgroups: int, kind: str) -> nvb.TensorMap:
    operand = TYPES[kind][0]
    return nvb.TensorMap(operand, box=(64 * warpgroups, 1024 // operand.bits))


def box_of_b(columns: int, split: int, kind: str, own_first: bool) -> nvb.TensorMap:
    operand = TYPES[kind][0]
    return nvb.TensorMap(operand, box=(columns // split if own_first else columns, 1024 // operand.bits))


def pointer(kind: str) -> nvb.Pointer:
    return nvb.Pointer(TYPES[kind][1])


@nvb.kernel("sm_90a", threads=lambda warpgroups: 128 * (1 + warpgroups), cluster=lambda split: split, min_ctas=1)
def products(
    k, a: Annotated[nvb.TensorMap, box_of_a], b: Annotated[nvb.TensorMap, box_of_b],
    out: Annotated[nvb.Pointer, pointer], width: i32, steps: i32,
    *, columns: int = 64, split: int = 2, warpgroups: int = 1, kind: str = "f32", own_first: bool = False,
):  # fmt: skip
    """Each cluster has a tile of `columns` columns of A B^T, and each of its CTAs every `split`-th step."""
    operand, sums = TYPES[kind]
    depth = 1024 // operand.bits
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{columns}k{depth // 4}", operand, operand, sums), (warpgroups, 1))
    ring = k.pipeline(2, warpgroups, a=mma.smem_a(depth), b=mma.smem_b(depth))
    exchange = k.cluster.reduce_scatter(mma, own_first=own_first)
    k.mbarrier.ready()
    first = k.cluster.id() * columns
    mine = lambda: k.range(k.cluster.rank(), steps, split)  # noqa: E731
    with k.producer(registers=40), mine() as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (0, step * depth), stage.full)
        if not own_first:
            k.tma.load(stage.b, b, (first, step * depth), stage.full)
        else:
            for part, column in enumerate(exchange.parts()):
                rows = stage.b.rows_from(part, exchange.columns)
                k.tma.load(rows, b, (first + column, step * depth), stage.full)
    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        acc.clear()
        with mine(), ring.drain() as stage, k.wgmma.group(in_flight=0):
            mma.accumulate(acc, stage.a, stage.b, warpgroup)
        exchange.send(acc, warpgroup)
        tile = k.tensor(out, nvb.layout.Layout((64 * warpgroups, width), (width, 1)), multiple_of=8)
        own = tile.tile((64 * warpgroups, exchange.columns), (0, k.cluster.id() * split + k.cluster.rank()))
        exchange.sums().store(own)


@cache
def loaded(**constants):
    compiled = products.compile(assemble=False, **constants)
    assert compiled.diagnostics == ()
    return nvb.runtime.load(compiled, device="simulator")


def assert_right(steps, clusters, columns=64, split=2, warpgroups=1, kind="f32", own_first=False):
    """Every tile comes out as NumPy has it, of as many steps as any CTA may have, none among them."""
    operand, sums = TYPES[kind]
    depth, random = steps * (1024 // operand.bits), np.random.default_rng(steps)
    a, b = (
        random.integers(-3, 4, (rows, max(16, depth))).astype(NUMPY[operand])
        for rows in (64 * warpgroups, clusters * columns)
    )
    out = np.full((64 * warpgroups, clusters * columns), 77, NUMPY[sums])
    kernel = loaded(columns=columns, split=split, warpgroups=warpgroups, kind=kind, own_first=own_first)
    kernel.launch(clusters * split, a, b, out, clusters * columns, steps)
    expected = a[:, :depth].astype(np.float64) @ b[:, :depth].T.astype(np.float64)
    assert np.array_equal(out.astype(np.float64), expected)


@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 5),
    st.integers(1, 3),
    st.sampled_from([(64, 2), (64, 4), (16, 2), (24, 3)]),
    st.sampled_from(list(TYPES)),
    st.booleans(),
)
def test_each_cta_has_the_sums_of_its_columns(steps, clusters, shape, kind, own_first):
    columns, split = shape
    assert_right(steps, clusters, columns, split, 1, kind, own_first)


@pytest.mark.parametrize("own_first", [False, True])
def test_all_warpgroups_of_a_tile_exchange_theirs(own_first):
    assert_right(3, 1, 32, 2, 2, "f32", own_first)


def test_the_order_of_addition_is_that_of_the_ranks():
    """Sums of floats are the same in every CTA, and each time."""

    @nvb.kernel("sm_90a", threads=128, cluster=4)
    def large_and_small(k, out: nvb.Pointer[f32]):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n32k16", f16, f16, f32))
        exchange = k.cluster.reduce_scatter(mma)
        k.mbarrier.ready()
        acc, rank = mma.accumulator(), k.cluster.rank()
        acc.fill(k.select(rank == 0, 1.0, k.select(rank == 1, 2.0**24, k.select(rank == 2, 1.0, -(2.0**24)))))
        exchange.send(acc)
        for (row, column), value in exchange.sums().items():
            out[row * 32 + column + exchange.first] = value

    out = np.zeros((64, 32), np.float32)
    nvb.runtime.load(large_and_small.compile(assemble=False), device="simulator").launch(4, out)
    ranks = [np.float32(value) for value in (1, 2**24, 1, -(2**24))]
    assert np.all(out == ((ranks[0] + ranks[1]) + ranks[2]) + ranks[3])


@nvb.kernel("sm_90a", threads=256, cluster=2, min_ctas=1)
def with_a_bias(k, bias: nvb.Pointer[f32], out: nvb.TensorMap(f16, box=(64, 32), swizzle=64)):
    """Each CTA has rows of 128 x 64 numbers, and stores the sums of its 32 columns by TMA."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), (2, 1))
    exchange, acc, warpgroup = k.cluster.reduce_scatter(mma), mma.accumulator(), k.warpgroup_id()
    output = k.tma_epilogue(out, exchange.columns, 2)
    k.mbarrier.ready()
    acc.fill(0.0)
    acc.set(acc.elements(warpgroup) + acc.rows(lambda row: row.to(f32), warpgroup))
    exchange.send(acc, warpgroup)
    sums = exchange.sums()
    reserved = output.reserve((warpgroup * 64, exchange.first), warpgroup)
    reserved.store(sums + sums.columns(lambda column: bias[exchange.first + column]))
    output.finish()


def test_the_epilogues_take_the_sums():
    bias, out = np.arange(64, dtype=np.float32) * 256, np.zeros((128, 64), np.float16)
    nvb.runtime.load(with_a_bias.compile(assemble=False), device="simulator").launch(2, bias, out)
    assert np.array_equal(out, (2 * np.arange(128, dtype=np.float32)[:, None] + bias).astype(np.float16))


def builder(cluster=2, threads=128, columns=64, own_first=False, **options):
    k = KernelBuilder("k", "sm_90a", threads=threads, cluster=cluster)
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{columns}k16", f16, f16, f32), **options)
    return k, mma, lambda: k.cluster.reduce_scatter(mma, own_first=own_first)


def test_sums_are_sent_before_they_are_read_and_each_once():
    k, mma, made = builder()
    exchange, acc = made(), mma.accumulator()
    k.mbarrier.ready()
    assert rules(exchange.sums) == ["reduce-scatter.once"]
    with k.range(3):
        assert rules(lambda: exchange.send(acc)) == ["reduce-scatter.once"]
    exchange.send(acc)
    assert rules(lambda: exchange.send(acc)) == ["reduce-scatter.once"]
    with k.range(3):
        assert rules(exchange.sums) == ["reduce-scatter.once"]
    exchange.sums()
    assert rules(exchange.sums) == ["reduce-scatter.once"]


@pytest.mark.parametrize(
    ("columns", "cluster", "advice"),
    [
        (40, 2, "use a tile of 48 columns, or a cluster of 5"),
        (8, 2, "use a tile of 16 columns"),
        (48, 4, "use a tile of 64 columns, or a cluster of 2 or 3 or 6"),
    ],
)
def test_columns_that_the_cluster_does_not_divide_are_refused_with_others(columns, cluster, advice):
    _, _, made = builder(cluster=cluster, columns=columns)
    with pytest.raises(nvb.DiagnosticError) as caught:
        made()
    (only,) = caught.value.diagnostics
    assert (only.rule_id, only.fix) == ("reduce-scatter.tile", advice)


def test_a_tile_of_several_accumulators_is_refused():
    for options in ({"tile": (128, 64)}, {"warpgroups": (1, 2), "threads": 256}):
        _, _, made = builder(**options)
        assert rules(made) == ["reduce-scatter.tile"]


def test_which_warpgroup_sends_must_be_said_and_all_of_them_send():
    k, mma, made = builder(threads=384, warpgroups=(2, 1))
    exchange, acc = made(), mma.accumulator()
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() > 0):
        assert rules(lambda: exchange.send(acc)) == ["mma.warpgroup"]
    with k.if_(k.warpgroup_id() == 1):
        assert rules(lambda: exchange.send(acc, 0)) == ["reduce-scatter.threads"]


def test_accumulators_of_another_shape_and_elements_of_another_type_are_refused():
    k, mma, made = builder()
    exchange, acc = made(), mma.accumulator()
    k.mbarrier.ready()
    other = k.tiled_mma(nvb.wgmma.mma_async("m64n32k16", f16, f16, f32)).accumulator()
    for sent in (other, other.elements(), acc.elements().to(f16)):
        assert rules(lambda sent=sent: exchange.send(sent)) == ["reduce-scatter.accumulator"]
    assert rules(lambda: exchange.send(3)) == ["call.argument"]
    exchange.send(acc.elements() * 2.0)
    assert exchange.sums().shape == (64, 32)
    assert repr(exchange) == "<reduce-scatter of 64 x 64 over 2 CTAs, 32 columns each>"


def test_elements_that_other_threads_have_are_refused():
    """Of a tile of the same shape and type, of which mma.sync leaves as many to each thread."""
    k, _, made = builder(columns=32)
    exchange = made()
    k.mbarrier.ready()
    warps = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (2, 2), tile=(64, 32)).accumulator()
    with pytest.raises(nvb.DiagnosticError) as caught:
        exchange.send(warps.elements())
    (only,) = caught.value.diagnostics
    assert only.rule_id == "reduce-scatter.accumulator"
    assert only.message.endswith("the sums are 64 x 32 of f32, of which a thread of the tiled MMA has others")
    halves = k.tiled_mma(nvb.wgmma.mma_async("m64n16k16", f16, f16, f32), tile=(64, 32)).accumulators()
    exchange.send(halves.elements())


def test_columns_are_said_in_the_order_of_each_cta():
    """Of own_first it must be asked for; else the order is that of the tile."""
    k, mma, made = builder()
    plain = made()
    assert [part.constant for part in plain.parts()] == [0, 32]
    assert plain.column(5).constant == 5
    k, mma, made = builder(own_first=True)
    exchange, acc = made(), mma.accumulator()
    k.mbarrier.ready()
    exchange.send(acc)
    exchange.sums()
    assert [fault.rule_id for fault in exchange._faults()] == ["reduce-scatter.order"]
    exchange.column(5)
    assert list(exchange._faults()) == []
