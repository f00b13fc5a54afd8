"""Names that tiles, tiled MMAs and rings do not have."""

from __future__ import annotations

import copy

import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.layout import Layout


def objects() -> dict[str, object]:
    k = nvb.KernelBuilder("names", "sm_90a", threads=128, parameters=[nvb.Parameter("x", nvb.Pointer(f32))])
    wide = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    warps = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (4, 1))
    blackwell = nvb.KernelBuilder("names", "sm_100a", threads=128)
    made = (
        wide,
        warps,
        wide.accumulator(),
        warps.accumulator(),
        warps.accumulator().elements(),
        k.tensor(k.arguments[0], Layout((4, 4))),
        k.pipeline(2, consumers=1, a=(f32, 128)),
        k.shared_tiles(wide.smem_a(64), 2),
        blackwell.tiled_mma(nvb.tcgen05.mma("m128n64k16", f16, f16, f32)),
    )
    return {type(each).__name__: each for each in made}


@pytest.mark.parametrize("name", sorted(objects()))
def test_an_unknown_name_is_refused(name: str) -> None:
    owner = objects()[name]
    with pytest.raises(nvb.DiagnosticError, match=rf"tile\.attribute.*nvb\.{name} has no \.astype") as caught:
        owner.astype  # type: ignore[attr-defined]  # noqa: B018
    (fault,) = caught.value.diagnostics
    assert fault.location is not None and fault.location.file == __file__
    assert not hasattr(owner, "astype") and not hasattr(owner, "__array_interface__")
    assert copy.copy(owner) is not None


def test_a_near_name_is_asked_for_and_never_given_as_the_fix() -> None:
    """Whether `acumulator` means `accumulator` only its author knows."""
    with pytest.raises(nvb.DiagnosticError) as caught:
        objects()["TiledWarpMma"].acumulator()  # type: ignore[attr-defined]
    fix = caught.value.diagnostics[0].fix
    assert fix.startswith("did you mean accumulator? Otherwise use one of ") and "gemm" in fix


def test_tiles_are_taken_by_at_and_not_by_brackets() -> None:
    k = nvb.KernelBuilder("brackets", "sm_90a", threads=128)
    tiles = k.shared_tiles(k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)).smem_a(64), 2)
    for use in (lambda: tiles[0], lambda: list(tiles)):  # type: ignore[index, call-overload]
        with pytest.raises(nvb.DiagnosticError, match=r"tile\.attribute") as caught:
            use()
        assert caught.value.diagnostics[0].fix == "take a tile by tiles.at(index)"
