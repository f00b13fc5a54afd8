"""Names of atoms in documents, each against the instruction or the layout beside it there."""

from __future__ import annotations

import pytest

from nvbackend import Major, SwizzleMode, f16
from nvbackend.atoms import Residency, atom, layout_atom, layout_atom_name
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import bf16, e4m3, e5m2, s8, tf32

WGMMA = {
    "sm90_wgmma_m64n128k16_f32_f16_f16": "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16",
    "sm90_wgmma_m64n256k16_f32_bf16_bf16": "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
    "sm90_wgmma_m64n8k32_f32_e4m3_e5m2": "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2",
    "sm90_wgmma_m64n64k256_s32_b1_b1": "wgmma.mma_async.sync.aligned.m64n64k256.s32.b1.b1.and.popc",
    "sm90_64x128x16_F16F16F32_SS": "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16",
    "cute::MMA_Atom<MMA_Traits<sm90_64x128x16_F16F16F32_SS>>": "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16",
    "sm90_64x32x32_E5M2E4M3F32_RS": "wgmma.mma_async.sync.aligned.m64n32k32.f32.e5m2.e4m3",
    "sm90_64x64x8_TF32TF32F32_SS": "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32",
    "MMA_Atom<SM80_16x8x16_F32F16F16F32_TN>": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
}


@pytest.mark.parametrize("name", WGMMA)
def test_a_name_is_the_instruction_beside_it(name: str) -> None:
    found = atom(name)
    assert found.row.ptx == WGMMA[name]
    assert (found.a_major, found.b_major) == (Major.K, Major.K)
    in_registers = name.endswith("_RS") or name.startswith("MMA_Atom<SM80")
    assert found.a_residency is (Residency.REGISTERS if in_registers else Residency.SHARED_DESCRIPTOR)


@pytest.mark.parametrize(
    ("name", "rule", "said"),
    [
        ("sm90_wgmma_m64n21k16_f32_f16_f16", "atom.name", "SM90_64x24x16_F32F16F16_SS<Major::K, Major::K>"),
        ("sm90_wgmma_m64n16k16_f32_f17_f16", "atom.name", "use a name"),
        ("SM90_64x64x32_F32E4M3E4M3_SS<Major::MN, Major::K>", "atom.not-here", "these have 8"),
        ("SM90_64x64x32_F32E4M3E5M2_SS_NT", "atom.not-here", "these have 8"),
        ("SM90_64x64x32_S32S8S8_SS_NN_SATURATE", "atom.not-here", "these have 8"),
        ("SM90::GMMA::SPARSE::GMMA_64x64x64_F16E4M3E4M3_SS_TT", "atom.not-here", "these have 8"),
        ("SM90_64x64x8_F32TF32TF32_SS<GMMA::Major::K, GMMA::Major::MN>", "atom.not-here", "these have 32"),
        ("SM90_64x64x32_F32E4M3E4M3_SS<Major::K, Major::K>", "atom.not-here", "operands of 8 bits"),
        ("SM90_64x64x16_F16F16F16_SS", "atom.not-here", "how A and B are stored"),
    ],
)
def test_names_that_are_refused_say_why(name: str, rule: str, said: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        atom(name)
    (found,) = caught.value.diagnostics
    assert found.rule_id == rule
    assert said in f"{found.message} {found.fix}"


LAYOUTS = {
    # what the notes on WGMMA print of the atoms of half_t, contiguous bytes being those of the swizzle
    "GMMA::Layout_MN_SW128_Atom<half_t>": "Sw<3,4,3> o smem_ptr o (_64,_8):(_1,_64)",
    "GMMA::Layout_K_SW128_Atom<half_t>": "Sw<3,4,3> o smem_ptr o (_8,_64):(_64,_1)",
    "Layout_MN_SW32_Atom<half_t>": "Sw<1,4,3> o smem_ptr o (_16,_8):(_1,_16)",
    "Layout_MN_INTER_Atom<cutlass::half_t>": "Sw<0,4,3> o smem_ptr o (_8,_8):(_1,_8)",
    "cute::GMMA::Layout_MN_SW128_Atom< float_e4m3_t >": "Sw<3,4,3> o smem_ptr o (_128,_8):(_1,_128)",
    "Layout_K_SW64_Atom<tfloat32_t>": "Sw<2,4,3> o smem_ptr o (_8,_16):(_16,_1)",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_shared_memory_atoms_by_name(name: str) -> None:
    assert str(layout_atom(name)) == LAYOUTS[name]


def test_their_names_go_round() -> None:
    names = {layout_atom_name(*key) for key in ((m, s, e) for m in Major for s in SwizzleMode for e in (f16, bf16, s8))}
    assert len(names) == 24
    assert all(str(layout_atom(name)) for name in names)
    assert layout_atom_name(Major.MN, SwizzleMode.B64, tf32) == "GMMA::Layout_MN_SW64_Atom<tfloat32_t>"
    for element in (e4m3, e5m2):
        assert f"float_{element.name}_t" in layout_atom_name(Major.K, SwizzleMode.NONE, element)


@pytest.mark.parametrize(
    "name", ["Layout_MN_SW256_Atom<half_t>", "Layout_M_SW32_Atom<half_t>", "Layout_K_SW32_Atom<h>"]
)
def test_names_of_no_shared_memory_atom(name: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        layout_atom(name)
    assert [one.rule_id for one in caught.value.diagnostics] == ["atom.layout-name"]
