"""mma.sync over the warps of a CTA."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import e4m3, f16, f32
from nvbackend.layout import Layout
from tests.rules.example import kernel


@kernel("warp-mma.atom", "sm_80")
def atoms_for_more_warps_than_there_are(k):
    warps = (4, 2)  # breaks
    warps = (2, 2)  # keeps
    k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), warps)


@kernel("warp-mma.fragment", "sm_80")
def a_tile_of_another_type(k, a: nvb.Pointer[e4m3], b: nvb.Pointer[f16]):
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (2, 2), tile=(64, 64))
    tile = Layout((64, 64), (64, 1))
    mma.load_a(k.tensor(a, tile))  # breaks
    mma.load_a(k.tensor(b, tile))  # keeps
