"""What a call on whole tiles refuses: metadata and scale factors, which instructions take, and memory of no tile."""

from __future__ import annotations

from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import e2m1, f16, f32, ue4m3

SCALED = {"kind": "mxf4nvf4", "scale": ue4m3, "scale_vector": "scale_vec::4X"}


@pytest.mark.parametrize("call", ["accumulate", "gemm"])
def test_a_sparse_wgmma_is_issued_one_by_one(call: str) -> None:
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, parameters=[nvb.Parameter("words", nvb.Pointer(nvb.u32))])
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k32", f16, f16, f32, sparse=True))
    acc, operands, fragments = _operands(k, mma, 64, 128)
    with pytest.raises(nvb.DiagnosticError, match=r"mma\.operands.*takes no metadata") as caught:
        getattr(mma, call)(acc, *(operands if call == "accumulate" else fragments))
    fix = caught.value.diagnostics[0].fix
    assert "for issue in mma.issues(acc, left, right): mma.issue(issue, acc, left, right, metadata=...)" in fix
    left, right = fragments
    for issue in mma.issues(acc, left, right):
        mma.issue(issue, acc, left, right, metadata=k.arguments[0][issue.k])


@pytest.mark.parametrize(
    ("request_", "columns", "operands"),
    [
        (nvb.tcgen05.mma("m128n64k32", f16, f16, f32, sparse=True), (64, 128), ["metadata"]),
        (nvb.tcgen05.mma("m128n64k64", e2m1, e2m1, f32, **SCALED), (256, 256), ["scale_a", "scale_b"]),
    ],
)
def test_tcgen05_with_operands_of_its_own_is_issued_one_by_one(
    request_: Any, columns: tuple[int, int], operands: list[str]
) -> None:
    k = nvb.KernelBuilder("k", "sm_100a", threads=128)
    mma = k.tiled_mma(request_)
    a, b = k.shared_tile(mma.smem_a(columns[0])), k.shared_tile(mma.smem_b(columns[1]))
    left, right = mma.partition_fragment_A(a), mma.partition_fragment_B(b)
    with k.tcgen05.tmem(128) as tmem:
        acc = tmem.columns(0, 64)
        with pytest.raises(
            nvb.DiagnosticError, match=rf"mma\.operands.*takes no {' and no '.join(operands)}"
        ) as caught:
            mma.accumulate(acc, a, b)
        written = ", ".join(f"{name}=..." for name in operands)
        fix = caught.value.diagnostics[0].fix
        assert f"mma.issue(issue, acc, left, right, accumulate=issue.k > 0, {written})" in fix
        for issue in mma.issues(left, right):
            own = {name: tmem.columns(64 + 8 * place, 8) for place, name in enumerate(operands)}
            mma.issue(issue, acc, left, right, accumulate=issue.k > 0, **own)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_memory_that_is_no_tile_is_named_at_the_call(target: str) -> None:
    k = nvb.KernelBuilder("k", target, threads=128, parameters=[nvb.Parameter("columns", nvb.u32)])
    request: Any = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
    if target == "sm_100a":
        request = nvb.tcgen05.mma("m128n64k16", f16, f16, f32)
    mma, memory = k.tiled_mma(request), k.shared(f16, 8192)
    acc = k.arguments[0] if target == "sm_100a" else mma.accumulator()
    with pytest.raises(nvb.DiagnosticError, match=r"accumulate: a must be SharedTile") as caught:
        mma.accumulate(acc, memory, memory)
    assert [one.message.partition(" must")[0][-1] for one in caught.value.diagnostics] == ["a", "b"]


def _operands(k: nvb.KernelBuilder, mma: Any, of_a: int, of_b: int) -> tuple[Any, tuple[Any, Any], tuple[Any, Any]]:
    a, b = k.shared_tile(mma.smem_a(of_a)), k.shared_tile(mma.smem_b(of_b))
    return mma.accumulator(), (a, b), (mma.partition_fragment_A(a), mma.partition_fragment_B(b))
