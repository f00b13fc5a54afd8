"""An accumulator that starts from zero, by each way there is: ptxas keeps the mma of the loop in flight (no C7515)."""

from __future__ import annotations

from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32
from nvbackend.builder.kernel.definition import KernelDefinition

A_TILE = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
WAYS = ("fresh", "clear", "fill", "fill of a value")


def begin(acc: Any, way: str, value: Any) -> None:
    """Let the accumulator hold nothing, or zeros."""
    if way == "clear":
        acc.clear()
    elif way == "fill":
        acc.fill(0.0)
    elif way == "fill of a value":
        acc.fill(value)


def ring_gemm(n: int, way: str, persistent: bool) -> KernelDefinition:
    """One producer and one consumer warpgroup, one group of mma in flight; with an outer loop over tiles or without."""
    b_tile = SmemLayout(Major.K, SwizzleMode.B128, f16, n, 64)
    maps = nvb.TensorMap(f16, box=(64, 64)), nvb.TensorMap(f16, box=(n, 64))

    def gemm(k: Any, a: Any, b: Any, c: Any, tiles: Any, steps: Any, start: Any) -> None:
        mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{n}k16", f16, f16, f32))
        ring = k.pipeline(3, 1, a=A_TILE, b=b_tile)
        k.mbarrier.ready()
        count = tiles if persistent else k.const(1, i32)
        with k.producer(registers=40):
            with k.range(count), k.range(steps) as step, ring.fill() as stage:
                k.tma.load(stage.a, a, (0, step * 64), stage.full)
                k.tma.load(stage.b, b, (0, step * 64), stage.full)
            ring.finish()
        with k.consumers(registers=232) as warpgroup:
            acc = mma.accumulator()
            with k.range(count) as tile:
                begin(acc, way, start)
                with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                    mma.accumulate(acc, stage.a, stage.b, warpgroup)
                k.wgmma.wait_group(0, drains=[acc])
                ring.release()
                k.store_accumulator(acc, c + tile * 64 * n, n)

    gemm.__annotations__ = {
        **dict(zip(("a", "b"), maps, strict=True)),
        "c": nvb.Pointer[f32],
        "tiles": i32,
        "steps": i32,
        "start": f32,
    }
    return nvb.kernel("sm_90a", threads=256, min_ctas=1)(gemm)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("n", "persistent"), [(64, False), (256, True)])
def test_the_loop_stays_asynchronous(n: int, persistent: bool, way: str) -> None:
    compiled = ring_gemm(n, way, persistent).compile()
    assert [found.rule_id for found in compiled.diagnostics] == []
    loop = compiled.sass()
    assert loop.count("GMMA.64x") == 4
    assert loop.count("WARPGROUP.ARRIVE") == 1, "one fence, and none that ptxas added"
    assert loop.count("gsb0, 0x1") == 1, "the wait of the loop leaves a group in flight"
    assert loop.count("gsb0, 0x0") == 1, "and only the one after it leaves none"
