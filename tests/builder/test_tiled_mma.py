"""k.tiled_mma of wgmma: what it takes, and which instructions with which descriptors come of it."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, Swizzle, f16, f32
from nvbackend.atoms import atom
from nvbackend.builder.kernel import KernelBuilder
from nvbackend.isel.machine import MachineInstr
from nvbackend.tiled import make_tiled_mma

NAME = "SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>"
REQUEST = nvb.wgmma("m64n64k16", f16, f16, f32)


def builder(threads: int = 128) -> KernelBuilder:
    return KernelBuilder("tiled", "sm_90a", threads=threads)


def products(k: KernelBuilder) -> list[MachineInstr]:
    return [one for one in k.machine.instructions() if one.opcode == "wgmma.mma_async"]


@pytest.mark.parametrize("given", [REQUEST, NAME, atom(NAME), make_tiled_mma(NAME)])
def test_a_request_an_atom_its_name_and_a_tiled_mma_are_the_same(given):
    k = builder()
    mma = k.tiled_mma(given)
    a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    acc = mma.accumulator()
    with k.wgmma():
        mma.accumulate(acc, a, b)
    assert [one.row.ptx for one in products(k)] == ["wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"] * 4
    assert str(mma.layouts) == NAME


def test_a_request_reads_tiles_of_any_major():
    k = builder()
    mma = k.tiled_mma(REQUEST)
    a = k.shared_tile(SmemLayout(Major.MN, Swizzle.B128, f16, 64, 64))
    b = k.shared_tile(SmemLayout(Major.K, Swizzle.B128, f16, 64, 64))
    with k.wgmma():
        mma.accumulate(mma.accumulator(), a, b)
    assert {(one.immediates["trans_a"], one.immediates["trans_b"]) for one in products(k)} == {(1, 0)}


def test_an_atom_reads_what_its_name_says():
    k = builder()
    mma = k.tiled_mma(NAME)
    a = k.shared_tile(SmemLayout(Major.MN, Swizzle.B128, f16, 64, 64))
    with pytest.raises(nvb.DiagnosticError, match=r"wgmma\.operand-major"):
        mma.partition_fragment_A(a)
