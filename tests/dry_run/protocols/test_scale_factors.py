"""Scale factors in tensor memory: what tcgen05.cp fills, and where a block-scaled product reads its factors.

PTX ISA 9.7.16.9.2 (tcgen05.cp): a shape of L lanes and B bits fills B / 32 columns, and by its multicast all lanes.
"""

from __future__ import annotations

from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import Major, SwizzleMode, f32, u8, u32
from tests.dry_run.refusals import refusals

PRODUCT = nvb.tcgen05.mma(
    "m128n64k64", nvb.e2m1, nvb.e2m1, f32, kind="mxf4nvf4", scale=nvb.ue4m3, scale_vector="scale_vec::4X"
)
LEFT, RIGHT = (nvb.SmemLayout(Major.K, SwizzleMode.B128, u8, rows, 128) for rows in (128, 64))
OPERAND = nvb.Tcgen05SmemDescriptor(0, 16, 1024, swizzle=nvb.Tcgen05Swizzle.B128)
FACTORS = nvb.Tcgen05SmemDescriptor(0, 128, 128, swizzle=nvb.Tcgen05Swizzle.NONE)
BYTES = nvb.Pointer(u8, align=16)
D_COLUMNS, FACTOR_BYTES = 64, 4096
SHAPES = {"32x128b": ("warpx4", 4), "64x128b": ("warpx2::02_13", 4), "128x128b": (None, 4), "128x256b": (None, 8)}
"""Where each shape goes, and its columns."""


@nvb.kernel("sm_100a", threads=128)
def product(
    k: Any, x: BYTES, out: nvb.Pointer[u32], *, columns: int, filled: tuple[int, int], read: tuple[int, int],
    shape: str = "32x128b", late: bool = False, moved: int = 0,
) -> None:  # fmt: skip
    """D of one product; the factors of A and B are filled at two columns, and read at two."""
    left, right = k.shared_tile(LEFT, name="left"), k.shared_tile(RIGHT, name="right")
    factors = k.shared(u8, FACTOR_BYTES, align=128, name="factors")
    full, done = k.mbarrier.array(1, arrivals=1, name="full"), k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    mma = k.tiled_mma(PRODUCT)
    with k.tcgen05.tmem(columns) as tmem:
        with k.one_thread(0):
            k.mbarrier.arrive(full, expect_tx=LEFT.bytes + RIGHT.bytes + FACTOR_BYTES)
            for memory, size in ((left.address, LEFT.bytes), (right.address, RIGHT.bytes), (factors, FACTOR_BYTES)):
                k.bulk.load(memory, x, size, full)
            k.mbarrier.wait(full, 0)

            def fill() -> None:
                for column in filled:
                    source = k.tcgen05.smem_descriptor(factors, FACTORS)
                    k.tcgen05.cp(tmem + column, source, shape, SHAPES[shape][0])

            if not late:
                fill()
            a, b = (k.tcgen05.smem_descriptor(tile.address, OPERAND) for tile in (left, right))
            by = k.var(k.const(0, u32))
            with k.range(moved):
                by += 1
            scales = {name: tmem + by + column for name, column in zip(("scale_a", "scale_b"), read, strict=True)}
            k.tcgen05.mma(PRODUCT, tmem, a, b, mma.descriptor, accumulate=False, **scales)
            if late:
                fill()
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()
        load = k.tcgen05.ld(tmem + (k.warp_id() << 21).bitcast(u32), "32x32b", 1)
        k.tcgen05.wait_ld(load)
        out[k.thread_id()] = load.values[0]


A_AT, B_AT = D_COLUMNS, D_COLUMNS + 8


@pytest.mark.parametrize("shape", SHAPES)
def test_factors_are_read_where_they_were_filled(shape: str) -> None:
    last = SHAPES[shape][1] - 1
    for read in ((A_AT, B_AT), (A_AT + last, B_AT + last)):
        assert refusals(product, columns=128, filled=(A_AT, B_AT), read=read, shape=shape) == []


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("which", [0, 1])
def test_factors_that_nothing_has_filled(shape: str, which: int) -> None:
    beside = B_AT + SHAPES[shape][1]
    read = (beside, B_AT) if which == 0 else (A_AT, beside)
    assert refusals(product, columns=128, filled=(A_AT, B_AT), read=read, shape=shape) == ["dry-run.tensor-unwritten"]


def test_factors_that_are_filled_after_the_product() -> None:
    found = refusals(product, columns=128, filled=(A_AT, B_AT), read=(A_AT, B_AT), late=True)
    assert found == ["dry-run.tensor-unwritten"]


@pytest.mark.parametrize("shape", SHAPES)
def test_factors_beyond_the_allocation(shape: str) -> None:
    last = 128 - SHAPES[shape][1]
    assert refusals(product, columns=128, filled=(A_AT, last), read=(A_AT, last), shape=shape) == []
    wrong = refusals(product, columns=128, filled=(A_AT, last + 1), read=(A_AT, last + 1), shape=shape)
    assert wrong == ["dry-run.tensor-bounds"]


@pytest.mark.parametrize(("moved", "refused"), [(0, []), (3, []), (4, ["dry-run.tensor-bounds"])])
def test_factors_that_are_read_beyond_the_allocation(moved: int, refused: list[str]) -> None:
    """Of which nobody knows before the run where they are."""
    assert (
        refusals(product, columns=128, filled=(A_AT, 124), read=(A_AT, 124), moved=moved)[: len(refused) or 1]
        == refused
    )
