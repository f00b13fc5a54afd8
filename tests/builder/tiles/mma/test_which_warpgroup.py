"""Of a tile that several warpgroups share, each call says whose part it means."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.signature import Parameter, Pointer

THREADS = 256
STEPS = 4
"""Instructions of K 16 in tiles of 64 columns."""


def multiplied(warpgroups: tuple[int, int], *number: object, stored: tuple[object, ...] | None = None) -> list[str]:
    """The opcodes of a product of tiles in shared memory and a store: `number` is what is said of the warpgroup."""
    k = nvb.KernelBuilder("two", "sm_90a", threads=THREADS, parameters=[Parameter("out", Pointer(f32, align=8))])
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=warpgroups)
    a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    acc = mma.accumulator()
    said = [k.warpgroup_id() if one == "id" else one for one in number]
    with k.wgmma.group():
        mma.accumulate(acc, a, b, *said)
    mma.store(acc, k.arguments[0], 64 * warpgroups[1], *(said if stored is None else stored))
    return re.findall(r"wgmma\.\w+", str(k.finish(check=False).machine))


@pytest.mark.parametrize("warpgroups", [(2, 1), (1, 2)])
def test_a_product_without_a_number_is_refused(warpgroups: tuple[int, int]) -> None:
    with pytest.raises(nvb.DiagnosticError) as raised:
        multiplied(warpgroups)
    (fault,) = raised.value.diagnostics
    assert fault.rule_id == "mma.warpgroup"
    assert f"none given) of a tile of {warpgroups[0]} x {warpgroups[1]} warpgroups" in fault.message


@pytest.mark.parametrize("warpgroups", [(2, 1), (1, 2)])
def test_a_store_without_a_number_is_refused(warpgroups: tuple[int, int]) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"mma\.warpgroup"):
        multiplied(warpgroups, "id", stored=())


@pytest.mark.parametrize("number", ["id", 0, 1])
def test_with_a_number_it_is_built(number: object) -> None:
    assert multiplied((2, 1), number).count("wgmma.mma_async") == STEPS


def test_one_warpgroup_needs_no_number() -> None:
    assert multiplied((1, 1)).count("wgmma.mma_async") == STEPS
