"""Operands of a product in tensor memory that meet the columns of its D, or lie just beside them."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from tests.support.runtime import broken

SHAPE = nvb.InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
MATRIX = nvb.TensorMap(f16, box=(64, 64))
WORDS = nvb.Pointer[f32]


def product(d: int, a: int) -> nvb.KernelDefinition:
    """A product of which D and A begin at these columns."""

    @nvb.kernel("sm_100a", threads=128)
    def multiplied(k, b: MATRIX, out: WORDS):
        tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
        full, done = k.mbarrier.array(1, arrivals=1, name="full"), k.mbarrier.array(1, arrivals=1, name="done")
        k.mbarrier.ready()
        with k.tcgen05.tmem(128) as tmem:
            k.tcgen05.st(tmem.columns(a, 8).lanes(32 * k.warp_id()), "32x32b", [0] * 8)
            k.tcgen05.wait_st()
            k.tcgen05.fence_before_thread_sync()
            k.barrier.sync()
            with k.one_thread():
                k.tcgen05.fence_after_thread_sync()
                k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
                k.tma.load(tile, b, (0, 0), full)
                k.mbarrier.wait(full, 0)
                request = nvb.Tcgen05Request("f16", a_in_tmem=True)
                k.tcgen05.mma(request, tmem.columns(d, 64), tmem.columns(a, 8), tile, SHAPE, accumulate=False)
                k.tcgen05.commit(done)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            load = k.tcgen05.ld(tmem.columns(d, 64).lanes(32 * k.warp_id()), "32x32b", 64)
            k.tcgen05.wait_ld(load)
            for column, value in enumerate(load.values):
                out[k.thread_id() * 64 + column] = value.bitcast(f32)

    return multiplied


@pytest.mark.parametrize(("d", "a"), [(0, 64), (8, 0), (32, 24), (32, 96)])
def test_beside_the_columns(d: int, a: int) -> None:
    assert product(d, a).build().diagnostics == ()


@pytest.mark.parametrize(("d", "a", "end"), [(0, 63, 70), (8, 1, 8), (32, 40, 47)])
def test_in_the_columns(d: int, a: int, end: int) -> None:
    (found,) = broken(product(d, a).build)
    assert found.rule_id == "dry-run.tensor-overlap"
    assert (
        f"writes D to columns {d} to {d + 63} of tensor memory, and reads A from columns {a} to {end}" in found.message
    )
