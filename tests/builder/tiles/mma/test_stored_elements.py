"""The elements of a tile that accumulators of one warp are stored to: the accumulators' own, and no others."""

from __future__ import annotations

import numpy as np
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


def test_elements_are_scaled_by_numbers_and_by_values_of_the_run() -> None:
    """Every pair of factors, each known or not: C is not read where beta is the number 0, nor counts where it is 0."""
    factors = {"number": (0, 1, -0.5), "value": (0.0, 1.0, -0.5)}
    cases = [(kind, n, other, m) for kind in factors for n in (1, 2) for other in factors for m in (0, 1, 2)]

    @nvb.kernel("sm_90a", threads=32)
    def scaled(k, given: nvb.Pointer[f32], c: nvb.Pointer[f32], out: nvb.Pointer[f32]):
        mma = k.tiled_mma("SM80_16x8x16_F32F16F16F32_TN", tile=(16, 8))
        acc = mma.accumulator()
        elements = acc.map(lambda _: 3.0)
        for place, (kind, n, other, m) in enumerate(cases):
            alpha = factors[kind][n] if kind == "number" else given[n]
            beta = factors[other][m] if other == "number" else given[m]
            plain = Layout((16, 8), (8, 1))
            addend = k.tensor(c, plain)
            elements.store(k.tensor(out + place * 128, plain), alpha=alpha, beta=beta, c=addend)

    rng = np.random.default_rng(1)
    c = rng.integers(-9, 9, 128).astype(np.float32)
    c[5] = np.nan
    out = np.zeros((len(cases), 128), np.float32)
    given = np.array(factors["value"], np.float32)
    nvb.runtime.load(scaled.compile(assemble=False), device="simulator").launch(1, given, c, out)
    for (_, n, _, m), found in zip(cases, out, strict=True):
        alpha, beta = factors["value"][n], factors["value"][m]
        addend = beta * c if beta else np.zeros(128)
        assert np.array_equal(found, (alpha * 3 + addend).astype(np.float32), equal_nan=True)
