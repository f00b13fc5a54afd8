"""Rings of `ring.drain(in_flight=1)` without `ring.release()`: the message names the release that is missing.

With the release that it asks for, the kernel is right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest

import nvbackend as nvb
from nvbackend import Pointer, f16, f32, i32
from tests.support.runtime import broken

TILE = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]
MMA = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


def line_of(mark: str) -> int:
    """The first line of this file that ends in the mark."""
    lines = Path(__file__).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if line.endswith(mark))


def finished(*, release: bool) -> nvb.KernelDefinition:
    """The producer waits at its end until every stage is free."""

    @nvb.kernel("sm_90a", threads=256)
    def kernel(k, a: TILE, b: TILE, steps: i32, out: Pointer[f32]):
        mma = k.tiled_mma(MMA)
        ring = k.pipeline(2, consumers=1, a=mma.smem_a(64), b=mma.smem_b(64))
        k.mbarrier.ready()
        with k.if_(k.warpgroup_id() == 0), k.one_thread():
            with k.range(steps) as step, ring.fill() as stage:
                k.tma.load(stage.a, a, (0, step * 64), stage.full)
                k.tma.load(stage.b, b, (0, step * 64), stage.full)
            ring.finish()  # waits
        with k.else_():
            acc = mma.accumulator()
            with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):  # drains
                mma.accumulate(acc, stage.a, stage.b)
            k.wgmma.wait_group(0, drains=[acc])
            if release:
                ring.release()
            k.store_accumulator(acc, out, stride=64)

    return kernel


def in_turns(*, release: bool) -> nvb.KernelDefinition:
    """Consumers take turns, and each keeps a stage while the next one drains the others."""

    @nvb.kernel("sm_90a", threads=384, min_ctas=1)
    def kernel(k, a: TILE, b: TILE, tiles: i32, steps: i32, out: Pointer[f32]):
        mma = k.tiled_mma(MMA)
        ring = k.pipeline(3, consumers=2, a=mma.smem_a(64), b=mma.smem_b(64), pingpong=True)
        k.mbarrier.ready()
        with k.producer(registers=40), k.range(tiles) as tile, k.range(steps) as step, ring.fill() as stage:  # fills
            k.tma.load(stage.a, a, (tile * 64, step * 64), stage.full)
            k.tma.load(stage.b, b, (0, step * 64), stage.full)
        with k.consumers(registers=232) as warpgroup:
            acc = mma.accumulator()
            with k.range(warpgroup, tiles, 2) as tile:
                acc.clear()
                group = k.wgmma.group(in_flight=1)
                with ring.turn(warpgroup), k.range(steps), ring.drain(in_flight=1) as stage, group:  # takes a turn
                    mma.accumulate(acc, stage.a, stage.b)
                k.wgmma.wait_group(0, drains=[acc])
                if release:
                    ring.release()
                k.store_accumulator(acc, out + tile * 4096, stride=64)

    return kernel


@pytest.mark.parametrize(
    ("made", "drain", "wait", "who"),
    [(finished, "  # drains", "  # waits", "warp 4"), (in_turns, "  # takes a turn", "  # fills", "warps 4 and 8")],
)
def test_the_release_that_is_missing_is_named(made, drain: str, wait: str, who: str) -> None:
    made(release=True).build()
    (found,) = broken(lambda: made(release=False).build())
    drains, waits = (line_of(mark) for mark in (drain, wait))
    assert found.rule_id == "mbarrier.deadlock"
    assert found.location is not None and found.location.line == waits
    assert found.fix == (
        f"put ring.release() after the loop of line {drains}, and k.wgmma.wait_group(0) before it: "
        f"ring.drain(in_flight=1) keeps the last stage of {who}, and the wait of line {waits} for its release never "
        "ends"
    )


def test_a_release_that_some_steps_leave_out_is_not_said_to_be_missing() -> None:
    """There the steps of both sides differ for another reason."""

    @nvb.kernel("sm_90a", threads=256)
    def kernel(k, a: TILE, b: TILE, steps: i32, out: Pointer[f32]):
        mma = k.tiled_mma(MMA)
        ring = k.pipeline(2, consumers=1, a=mma.smem_a(64), b=mma.smem_b(64))
        k.mbarrier.ready()
        with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(steps + 2) as step, ring.fill() as stage:
            k.tma.load(stage.a, a, (0, step * 64), stage.full)
            k.tma.load(stage.b, b, (0, step * 64), stage.full)
        with k.else_():
            acc = mma.accumulator()
            with k.range(steps - 1), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            k.store_accumulator(acc, out, stride=64)

    (found,) = broken(kernel.build)
    assert found.rule_id == "mbarrier.deadlock" and "ring.release()" not in (found.fix or "")
