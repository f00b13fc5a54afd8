"""Columns of tensor memory that threads cannot share alike: what the fix says can be loaded, and is what was wanted."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, f32
from nvbackend.builder.tiles.mma.tcgen05 import TiledTcgen05

CASES = {
    "one atom": ("m64n8k16", (64, 8), 1),
    "two atoms": ("m64n8k16", (64, 16), 1),
    "a pair": ("m128n16k16", (128, 16), 2),
}


def tiled(shape: str, tile: tuple[int, int], ctas: int) -> TiledTcgen05:
    k = nvb.KernelBuilder("k", "sm_100a", threads=128, cluster=ctas)
    return k.tiled_mma(nvb.tcgen05.mma(shape, f16, f16, f32, cta_group=ctas), tile=tile)


def fix_for(mma: TiledTcgen05, first: int, count: int) -> str | None:
    try:
        mma._lanes(first, count)
    except DiagnosticError as error:
        return error.diagnostics[0].fix
    return None


@pytest.mark.parametrize("name", CASES)
def test_what_the_fix_says_can_be_loaded(name: str) -> None:
    mma = tiled(*CASES[name])
    width = CASES[name][1][1]
    refused = 0
    for first in range(0, width, 3 if name == "a pair" else 1):
        for count in range(1, width - first + 1):
            fix = fix_for(mma, first, count)
            if fix is None:
                continue
            refused += 1
            even, together = re.search(r"such as (\d+)$", fix), re.search(r"columns (\d+) to (\d+) together", fix)
            if even:
                assert int(even[1]) == count + 1, "one column more"
                start, wanted = first, count + 1
            else:
                assert together is not None, fix
                start, wanted = int(together[1]), int(together[2]) - int(together[1]) + 1
                assert start <= first < start + wanted
            assert fix_for(mma, start, wanted) is None, (first, count, fix)
    assert refused


@pytest.mark.parametrize("name", CASES)
def test_columns_that_the_tile_does_not_have(name: str) -> None:
    """Before the first, after the last, or none: what is told are the columns that there are."""
    mma = tiled(*CASES[name])
    width = CASES[name][1][1]
    for first in range(-2, width + 2):
        for count in range(-1, width + 3):
            is_inside = first >= 0 and count > 0 and first + count <= width
            told = (fix_for(mma, first, count) or "").startswith(f"load columns 0 to {width - 1} at most")
            assert told is not is_inside, (first, count)
