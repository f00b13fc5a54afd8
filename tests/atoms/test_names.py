"""CuTe's names of atoms, read and printed, and atoms of rows."""

from __future__ import annotations

import re

import pytest

from nvbackend.atoms import Residency, atom, atom_of, blas_letters, known_atoms, majors_of
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.mma import mma, tcgen05, wgmma
from nvbackend.intrinsics.row.types import bf16, e2m1, e4m3, e5m2, f16, f32, tf32, ue4m3, ue8m0
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.intrinsics.words.smem_descriptor import Major
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor

PUBLISHED = {
    # CUTLASS include/cute/arch/mma_sm*.hpp: the name, and the instruction in the asm of its fma
    "SM70_8x8x4_F16F16F16F16_NT": "mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16",
    "SM75_16x8x8_F32F16F16F32_TN": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
    "SM80_16x8x16_F32BF16BF16F32_TN": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "SM80_8x8x16_S32S8U8S32_TN_SATURATE": "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32",
    "SM80_16x8x256_S32U1U1S32_TN_XORPOPC": "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
    "SM89_16x8x32_F32E4M3E5M2F32_TN": "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32",
    "SM90_16x8x8_F64F64F64F64_TN": "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64",
    "SM90_64x64x16_F16F16F16_SS<Major::MN, Major::MN>": "wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16",
    "SM90_64x96x32_S32S8S8_SS_TN_SATURATE": "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8.satfinite",
    "SM90_64x8x32_F16E5M2E4M3_RS_TN<>": "wgmma.mma_async.sync.aligned.m64n8k32.f16.e5m2.e4m3",
    "SM90::GMMA::SPARSE::GMMA_64x8x32_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>": (
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16"
    ),
    "cute::SM90::GMMA::MMA_64x8x16_F32BF16BF16_RS<GMMA::Major::K, GMMA::Major::MN>": (
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
    ),
    "SM100_MMA_TF32_TS<tfloat32_t, tfloat32_t, float, 64, 8, UMMA::Major::K, UMMA::Major::K>": (
        "tcgen05.mma.cta_group::1.kind::tf32"
    ),
    "SM100_MMA_F8F6F4_2x1SM_SS<float_e4m3_t, float_e2m3_t, float, 256, 16, UMMA::Major::K, UMMA::Major::K>": (
        "tcgen05.mma.cta_group::2.kind::f8f6f4"
    ),
    "SM120_16x8x32_TN<float_e3m2_t, float_e5m2_t, float>": (
        "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e5m2.f32"
    ),
    "SM120::BLOCKSCALED::SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 16>": (
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_name_is_the_instruction_of_its_asm(name: str) -> None:
    assert atom(name).row.ptx == PUBLISHED[name]


def test_every_atom_is_found_by_what_it_prints() -> None:
    found = known_atoms()
    assert len(found) > 3000
    assert [one.name for one in found if atom(str(one)) != one] == []


def test_every_name_says_the_shape_and_types_of_the_row() -> None:
    """Read with an expression of its own, compared with the PTX."""
    for one in known_atoms():
        shape = re.search(r"_(\d+)x(\d+)x(\d+)_", one.name)
        types = re.search(r"x\d+_((?:BF16|TF32|F\d\d|E\dM\d|[SU]\d+)+)_", one.name)
        assert shape is not None
        assert "m{}n{}k{}".format(*shape.groups()) in one.row.ptx
        if types is None:
            assert one.name.startswith("SM120_")
            continue
        each = [
            text.lower().replace("u1", "b1") for text in re.findall(r"BF16|TF32|F\d\d|E\dM\d|[SU](?:32|\d)", types[1])
        ]
        assert f".{'.'.join(each)}" in one.row.ptx, one.name


def test_what_an_atom_says_of_itself() -> None:
    found = atom("SM90_64x128x16_F32BF16BF16_RS<Major::K, Major::MN>")
    assert (found.tier, found.shape, found.threads) == (90, (64, 128, 16), 128)
    assert (found.d, found.a, found.b, found.c) == (f32, bf16, bf16, f32)
    assert (found.a_major, found.b_major) == (Major.K, Major.MN)
    places = (Residency.REGISTERS, Residency.SHARED_DESCRIPTOR, Residency.REGISTERS)
    assert (found.a_residency, found.b_residency, found.d_residency) == places
    assert (found.sparsity, found.block_scale) == (None, None)


def test_scale_factors_of_the_kinds() -> None:
    e2m1s = "float_e2m1_t, float_e2m1_t, float"
    nv, mx = (
        atom(f"SM100_MMA_MXF4_SS<{e2m1s}, {scale}, 128, 64, {size}, Major::K, Major::K>")
        for scale, size in (("float_ue4m3_t", 16), ("float_ue8m0_t", 32))
    )
    assert nv.block_scale is not None
    assert mx.block_scale is not None
    assert (nv.block_scale.scale, nv.block_scale.vec_size, nv.shape) == (ue4m3, 16, (128, 64, 64))
    assert (mx.block_scale.scale, mx.block_scale.vec_size, mx.a) == (ue8m0, 32, e2m1)
    assert (".block16" in nv.row.ptx, ".block32" in mx.row.ptx) == (True, True)


def test_a_sparse_a_is_stored_in_half_the_columns() -> None:
    found = atom("SM80_SPARSE_16x8x32_F32F16F16F32_TN")
    assert (found.shape, found.stored_k) == ((16, 8, 32), 16)
    assert str(found.layout_a) == str(atom("SM80_16x8x16_F32F16F16F32_TN").layout_a)
    assert atom("SM80_SPARSE_ORDERED_16x8x32_F32F16F16F32_TN").sparsity == "sp::ordered_metadata"


def test_atoms_of_rows() -> None:
    for one in known_atoms()[::5]:
        assert atom_of(one.row, a_major=one.a_major, b_major=one.b_major) == one
    assert {atom_of(row) for row in mma.rows()} == {one for one in known_atoms() if one.threads != 128}
    wide = wgmma.mma_async(64, f32, tf32, tf32)
    assert str(atom_of(wide)) == "SM90_64x64x8_F32TF32TF32_SS_TN"
    descriptor = InstructionDescriptor(kind="f16", m=128, n=256, a=f16, b=f16, d=f32, transpose_b=True)
    umma = atom_of(tcgen05.mma("f16", cta_group=2, a_in_tmem=True), descriptor=descriptor)
    assert str(umma) == "SM100_MMA_F16BF16_2x1SM_TS<half_t, half_t, float, 128, 256, Major::K, Major::MN>"


@pytest.mark.parametrize(
    ("vector", "size"), [("scale_vec::2X", 32), ("block32", 32), ("scale_vec::4X", 16), ("block16", 16)]
)
def test_the_scale_vector_of_a_row(vector: str, size: int) -> None:
    descriptor = InstructionDescriptor(kind="mxf4nvf4", m=128, n=64, a=e2m1, b=e2m1, d=f32, scale=ue8m0)
    found = atom_of(tcgen05.mma("mxf4nvf4", scale_vector=vector), descriptor=descriptor)
    assert found.block_scale is not None
    assert found.block_scale.vec_size == size
    assert found.row.ptx.endswith(vector)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("SM80_16x8x16_F32F16F16F32_NT", "SM80_16x8x16_F32F16F16F32_TN"),
        ("SM90_64x21x16_F32F16F16_SS<Major::K, Major::K>", "SM90_64x24x16_F32F16F16_SS<Major::K, Major::K>"),
        ("SM89_16x8x32_F32E4M3E4M3_TN", "SM89_16x8x32_F32E4M3E4M3F32_TN"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        atom(name)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "atom.name"
    assert found.values["given"] == name
    assert f"; the nearest is {nearest}; or, in k.tiled_mma" in found.fix


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "atom.name"),
        ("SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64>", "atom.name"),
        (
            "SM100_MMA_F16BF16_SS<half_t, half_t, float, 12\N{ARABIC-INDIC DIGIT EIGHT}, 64, Major::K, Major::K>",
            "atom.name",
        ),
        (f"SM80_{'9' * 300}x8x16_F32F16F16F32_TN", "atom.name"),
        ("SM100_MMA_F16BF16_SS<half, half_t, float, 128, 64, Major::K, Major::K>", "atom.name"),
        ("SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, Major::M, Major::K>", "atom.name"),
        ("SM100_MMA_MXF4_SS<float_e2m1_t,float_e2m1_t,float,float_ue8m0_t,128,64,8,Major::K,Major::K>", "atom.name"),
        ("SM100_MMA_F16BF16_SS<half_t, half_t, float, 192, 64, Major::K, Major::K>", "tcgen05.m"),
        ("SM100_MMA_F16BF16_SS<half_t, int8_t, float, 128, 64, Major::K, Major::K>", "tcgen05.types"),
    ],
)
def test_names_of_nothing(name: str, rule: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        atom(name)
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]


def test_rows_that_make_no_atom() -> None:
    dense = InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
    for call in (
        lambda: atom_of(tcgen05.mma("f16")),
        lambda: atom_of(tcgen05.mma("tf32"), descriptor=dense),
        lambda: atom_of(next(mbarrier.rows())),
        lambda: atom_of(wgmma.mma_async(64, f32, e4m3, e5m2), a_major=Major.MN),
        lambda: atom_of(wgmma.mma_async(64, f32, f16, f16, a_in_registers=True), a_major=Major.MN),
    ):
        with pytest.raises(DiagnosticError) as caught:
            call()
        assert [one.rule_id for one in caught.value.diagnostics] == ["atom.row"]


def test_blas_letters() -> None:
    said = {letters: majors_of(letters) for letters in ("NN", "NT", "TN", "TT")}
    assert said == {
        "NN": (Major.MN, Major.K),
        "NT": (Major.MN, Major.MN),
        "TN": (Major.K, Major.K),
        "TT": (Major.K, Major.MN),
    }
    assert [blas_letters(*majors) for majors in said.values()] == list(said)
    for letters in ("", "T", "CN", "tn", "TNT"):
        with pytest.raises(DiagnosticError, match=r"atom\.blas"):
            majors_of(letters)
