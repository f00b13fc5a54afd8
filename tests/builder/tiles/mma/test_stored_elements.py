"""The elements of a tile that accumulators of one warp are stored to: the accumulators' own, and no others."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, bf16, e4m3, f16, f32, f64, s8, s32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.layout import Layout

ATOMS = {
    f32: nvb.mma.sync("m16n8k16", f16, f16, f32),
    f16: nvb.mma.sync("m16n8k16", f16, f16, f16),
    s32: nvb.mma.sync("m16n8k32", s8, s8, s32),
    f64: nvb.mma.sync("m8n8k4", f64, f64, f64),
}


@pytest.mark.parametrize("sums", ATOMS, ids=str)
@pytest.mark.parametrize("element", [f16, bf16, f32, f64, s32, u32, s8, e4m3], ids=str)
def test_sums_are_stored_as_what_they_are(sums: ElementType, element: ElementType) -> None:
    k = KernelBuilder("stored", "sm_90a", threads=32)
    mma = k.tiled_mma(ATOMS[sums])
    rows = 8 if sums is f64 else 16
    tile = k.tensor(k.shared(element, rows * 8, align=16), Layout((rows, 8), (8, 1)))
    if element is sums:
        mma.store(mma.accumulator(), tile)
        return
    with pytest.raises(DiagnosticError) as caught:
        mma.store(mma.accumulator(), tile)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "warp-mma.fragment"
    assert f"the sums are of {sums}, and the tile that they are stored to is of {element}" in found.message
