"""Choices about numbers in memory that are too many to find numbers for: the build ends soon all the same."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.dry_run.machine import model
from nvbackend.dry_run.machine.choices import Choices, Policy
from nvbackend.dry_run.values import floats
from nvbackend.dry_run.values.unknown import combine, leaf

_MOST, _MOST_FLOATS = 150_000, 1_500_000

Rows = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(128, 64))]
Weights = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(1, 128, 64))]
Offsets = Annotated[nvb.Pointer[i32], nvb.Pointer(i32, align=4)]
Count = Annotated[i32, nvb.Scalar(i32, minimum=1)]


@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def grouped(
    k: nvb.KernelBuilder, x: Rows, w: Weights, offsets: Offsets, y: nvb.Pointer[f16], groups: Count, n: Count
) -> None:
    """Products of groups whose rows begin at numbers in memory; each element is stored where it is inside of them."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n128k16", f16, f16, f32), warpgroups=(2, 1))
    ring = k.pipeline(3, consumers=2, a=mma.smem_a(64), b=mma.smem_b(64))
    k.mbarrier.ready()
    columns = (n + 127) // 128

    def walk(body: Any) -> None:
        before = k.var(0)
        with k.range(groups) as group:
            start, end = offsets[group], offsets[group + 1]
            tiles = (end - start + 127) // 128 * columns
            with k.range((k.block_id() - before) % k.block_count(), tiles, k.block_count()) as tile:
                body(group, start + tile // columns * 128, end, tile % columns * 128)
            before.set((before + tiles) % k.block_count())

    def load(group: nvb.Value, row: nvb.Value, _end: nvb.Value, column: nvb.Value) -> None:
        with k.range(4) as step, ring.fill() as stage:
            k.tma.load(stage.a, x, (row, step * 64), stage.full)
            k.tma.load(stage.b, w, (group, column, step * 64), stage.full)

    with k.producer(registers=40):
        walk(load)
    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()

        def multiply(_group: nvb.Value, row: nvb.Value, end: nvb.Value, column: nvb.Value) -> None:
            acc.clear()
            with k.range(4), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b, warpgroup)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            for (below, right), value in acc.items(warpgroup):
                at = row + below
                with k.if_((at < end) & (column + right < n)):
                    y[at * n + column + right] = value.to(f16)

        walk(multiply)


def test_the_search_for_numbers_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    evaluate = model.Model._evaluate

    def counted(self: model.Model, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        assert calls < _MOST
        return evaluate(self, *given)

    monkeypatch.setattr(model.Model, "_evaluate", counted)
    assert not grouped.build().diagnostics
    assert calls


@nvb.kernel("sm_90a", threads=64)
def roots(k: nvb.KernelBuilder, a: nvb.Pointer[f32], counts: nvb.Pointer[i32], out: nvb.Pointer[f32]) -> None:
    """Each thread computes roots until they are near enough."""
    lane = k.thread_id()
    wanted = a[0] * lane.to(f32)
    root = k.var(a[1] + lane.to(f32))
    with k.range(counts[0]):
        for near in (a[2], a[3]):
            with k.loop():
                k.break_if(root * root - wanted < near * lane.to(f32))
                root.set((root + wanted / root) * 0.5)
    kept = k.shared(f32, 64)
    kept[lane] = root
    k.barrier.sync()
    out[lane] = kept[63 - lane]


def test_the_search_among_floats_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lane has its own, so that a step of an expression takes as long as hundreds of integers."""
    calls = 0
    number = floats.number

    def counted(bits: int, name: str) -> float:
        nonlocal calls
        calls += 1
        assert calls < _MOST_FLOATS
        return number(bits, name)

    monkeypatch.setattr(floats, "number", counted)
    assert not roots.build().diagnostics
    assert calls


def test_then_a_choice_is_made_by_the_numbers_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    table: dict[Any, Any] = {}
    first, second = (combine("icmp sgt i32", leaf(table, "fresh i32", one), 3) for one in (1, 2))
    choices = Choices(Policy(first_way=True))
    assert choices.holds(first)
    monkeypatch.setattr(model, "ENOUGH", 0)
    assert not choices.holds(second)
    assert choices.holds(combine("xor", second, 1))
    assert choices.holds(first)
