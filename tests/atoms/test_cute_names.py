"""CuTe's names that are not those of known atoms: other spellings, parameters behind, and names of no atom here."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError
from nvbackend.atoms import MmaAtom, Residency, atom, atom_of, check_atom, use_of
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.types import f16, f32
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor

E2M1S = "float_e2m1_t, float_e2m1_t, float"
KK = "UMMA::Major::K, UMMA::Major::K"
AGAIN = {
    # CUTLASS include/cute/arch: what else CuTe calls an atom, with the defaults of its templates
    "SM80_16x8x8_F32F16F16F32_TN": "SM75_16x8x8_F32F16F16F32_TN",
    "SM80_16x8x8_F16F16F16F16_TN": "SM75_16x8x8_F16F16F16F16_TN",
    "SM90::MMA_16x8x4_F64F64F64F64_TN": "SM90_16x8x4_F64F64F64F64_TN",
    "SM90_64x64x8_F32TF32TF32_SS_TN<GMMA::ScaleIn::One, GMMA::ScaleIn::One>": "SM90_64x64x8_F32TF32TF32_SS_TN",
    "SM90::GMMA::MMA_64x64x16_F16F16F16_SS<GMMA::Major::K, GMMA::Major::MN, GMMA::ScaleIn::One>": (
        "SM90_64x64x16_F16F16F16_SS<Major::K, Major::MN>"
    ),
    "SM90::GMMA::SPARSE::GMMA_64x64x64_F16E4M3E4M3_SS_TN<GMMA::ScaleIn::One, GMMA::ScaleIn::One, "
    "GMMA::SparseSel::Zero>": "SM90::GMMA::SPARSE::GMMA_64x64x64_F16E4M3E4M3_SS_TN",
    f"SM100_MMA_F16BF16_TS<half_t, half_t, float, 128, 64, {KK}, UMMA::ScaleIn::One, UMMA::ScaleIn::One, "
    "UMMA::Saturate::False>": "SM100_MMA_F16BF16_TS<half_t, half_t, float, 128, 64, Major::K, Major::K>",
}


@pytest.mark.parametrize("name", AGAIN)
def test_other_spellings(name: str) -> None:
    assert str(atom(name)) == AGAIN[name]


OTHERS = {
    # CUTLASS include/cute/arch/mma_sm100_umma.hpp: the instruction in the asm, and K and the vector of the traits
    f"SM100_MMA_MXF4NVF4_SS_SPARSE<{E2M1S}, float_ue4m3_t, 128, 64, 32, {KK}>": (
        ("tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale.block16", 128, 32)
    ),
    f"SM100_MMA_MXF4NVF4_2x1SM_SS_SPARSE<{E2M1S}, float_ue8m0_t, 256, 64, 64, {KK}>": (
        ("tcgen05.mma.sp.cta_group::2.kind::mxf4.block_scale.block32", 128, 64)
    ),
    f"SM100_MMA_MXF8F6F4_SS_SPARSE<float_e4m3_t, float_e4m3_t, float, float_ue8m0_t, 128, 64, {KK}>": (
        ("tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale.block32", 64, 64)
    ),
    f"SM103::SM103_MXF4_ULTRA_SS_VS<{E2M1S}, float_ue4m3_t, 128, 64, 16, {KK}>": (
        ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16", 96, 16)
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_atoms_of_4_bit_elements(name: str) -> None:
    found, (ptx, k, vector) = atom(name), OTHERS[name]
    assert found.block_scale is not None
    assert (found.row.ptx, found.shape[2], found.block_scale.vec_size) == (ptx, k, vector)
    assert atom(str(found)) == found


def test_a_k_of_96_is_of_sm_103() -> None:
    found = atom(f"SM103_MXF4_ULTRA_2x1SM_SS_VS<{E2M1S}, float_ue8m0_t, 256, 64, 32, {KK}>")
    assert (found.tier, found.threads) == (103, 2)
    assert check_atom(found, "sm_103a", use_of(found)) == ()
    assert [one.rule_id for one in check_atom(found, "sm_100a", use_of(found))] == ["atom.target"]


@pytest.mark.parametrize(("m", "operands"), [(32, "SS"), (64, "TS"), (128, "SS")])
def test_weight_stationary_atoms(m: int, operands: str) -> None:
    found = atom(f"SM100_MMA_F16BF16_WS_{operands}<half_t, half_t, float, {m}, 64, Major::K, Major::K>")
    assert found.weight_stationary
    assert found.shape == (m, 64, 16)
    assert found.row.ptx == "tcgen05.mma.ws.cta_group::1.kind::f16"
    assert (found.a_residency is Residency.TENSOR_MEMORY) is (operands == "TS")
    assert atom(str(found)) == found
    descriptor = InstructionDescriptor(kind="f16", m=m, n=64, a=f16, b=f16, d=f32)
    assert atom_of(tcgen05.mma_ws("f16", a_in_tmem=operands == "TS"), descriptor=descriptor) == found
    if m == 128:
        assert atom_of(tcgen05.mma("f16"), descriptor=descriptor) != found


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("SM100_MMA_F16BF16_WS_SS<half_t, half_t, float, 32, 32, Major::K, Major::K>", "tcgen05.n"),
        ("SM100_MMA_F16BF16_WS_SS<half_t, half_t, float, 256, 64, Major::K, Major::K>", "tcgen05.m"),
        (f"SM100_MMA_MXF4_WS_SS<{E2M1S}, float_ue4m3_t, 128, 64, 16, Major::K, Major::K>", "atom.name"),
        (f"SM100_MMA_MXF4_ULTRA_SS_VS<{E2M1S}, float_ue4m3_t, 128, 64, 16, Major::K, Major::K>", "atom.name"),
        (f"SM103_MXF4_ULTRA_SS<{E2M1S}, float_ue4m3_t, 128, 64, 16, Major::K, Major::K>", "atom.name"),
        (f"SM100_MMA_MXF4NVF4_SS<{E2M1S}, float_ue4m3_t, 128, 64, 16, Major::K, Major::K>", "atom.name"),
    ],
)
def test_names_that_there_are_not(name: str, rule: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        atom(name)
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]


NOT_HERE = {
    "SM61_DP4A": "one thread",
    "SM100_2x1x1_F32F32F32F32": "one thread",
    "UniversalFMA<float, float, float>": "one thread",
    "SM80_8x8x4_GC64C64C64GC64_TN": "complex",
    "SM90::MMA_16x8x16_C64C64C64C64_TN": "complex",
    f"SM100_MMA_TF32_TS_INTERLEAVED_CF32CTF32CTF32CF32_TN<128, 64, {KK}>": "complex",
    f"SM100_MMA_F16BF16_2x1SM_SS_SCALED<half_t, half_t, float, 256, 64, {KK}, 3>": "power of two",
    f"SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, {KK}, UMMA::ScaleIn::One, UMMA::ScaleIn::Neg>": "sign",
    f"SM100_MMA_S8_SS<int8_t, int8_t, int32_t, 128, 64, {KK}, UMMA::Saturate::True>": "saturation",
    "SM90_64x64x8_F32TF32TF32_SS_TN<GMMA::ScaleIn::Neg, GMMA::ScaleIn::One>": "sign",
    "SM90::GMMA::SPARSE::GMMA_64x64x64_F16E4M3E4M3_SS_TN<GMMA::ScaleIn::One, GMMA::ScaleIn::One, "
    "GMMA::SparseSel::One>": "selector",
    "SM90_64x64x16_F32BF16BF16_RS<GMMA::Major::MN, GMMA::Major::K>": "K-major",
}


@pytest.mark.parametrize("name", NOT_HERE)
def test_what_cute_calls_an_atom_and_is_none(name: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        atom(name)
    (said,) = caught.value.diagnostics
    assert said.rule_id == "atom.not-here"
    assert NOT_HERE[name] in said.message
    assert said.values["given"] == name


def test_both_ways_of_d_are_of_other_lanes() -> None:
    """The same tile, weight-stationary or not, is another atom."""
    names = (f"SM100_MMA_F16BF16{ws}_SS<half_t, half_t, float, 64, 64, Major::K, Major::K>" for ws in ("", "_WS"))
    plain, stationary = map(atom, names)
    assert isinstance(plain, MmaAtom)
    assert plain != stationary
