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
        k.shared_tile(wide.smem_a(64)),
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


MEANT = [
    ("TileValues", "max", '.reduce_rows("max")'),
    ("TileValues", "sum", '.reduce_rows("add")'),
    ("TileValues", "exp", ".map(k.math.exp)"),
    ("TileValues", "values", "x[i]"),
    ("RegisterTensor", "zero", ".clear()"),
    ("Accumulator", "zero", ".fill(0)"),
    ("Tensor", "T", "k.tensor(tensor.address, Layout(shape, strides))"),
    ("Tensor", "stride", ".layout.stride"),
    ("SharedTile", "load", "tile.at(row, column).load(...)"),
    ("SharedTile", "shape", ".layout.rows"),
    ("TiledWarpMma", "partition_C", "tensor.partition(mma.thread.partition_C)"),
    ("TiledWgmma", "load_a", "k.shared_tile(mma.smem_a(columns))"),
    ("TiledTcgen05", "accumulator", "k.tcgen05.tmem(mma.columns)"),
    ("Ring", "producer_acquire", "ring.fill()"),
    ("Ring", "consumer_release", "ring.drain()"),
    ("Ring", "producer_tail", "ring.finish()"),
]


@pytest.mark.parametrize(("owner", "name", "fix"), MEANT, ids=[f"{owner}.{name}" for owner, name, _ in MEANT])
def test_a_name_of_other_libraries_has_what_is_meant(owner: str, name: str, fix: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        getattr(objects()[owner], name)
    assert fix in caught.value.diagnostics[0].fix


def test_columns_of_tensor_memory_and_an_epilogue_say_what_is_meant() -> None:
    k = nvb.KernelBuilder("columns", "sm_100a", threads=128)
    with (
        pytest.raises(nvb.DiagnosticError, match=r"a block of tensor memory has no \.load") as caught,
        k.tcgen05.tmem(32) as columns,
    ):
        columns.load()  # type: ignore[attr-defined]
    assert "mma.load(columns)" in caught.value.diagnostics[0].fix
    target = nvb.Parameter("c", nvb.TensorMap(f16, box=(64, 64)))
    k = nvb.KernelBuilder("epilogue", "sm_90a", threads=128, parameters=[target])
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.tma_epilogue(k.arguments[0], 64).store  # type: ignore[arg-type, attr-defined]  # noqa: B018
    assert "epilogue.reserve((row, column), warpgroup).store(acc)" in caught.value.diagnostics[0].fix
