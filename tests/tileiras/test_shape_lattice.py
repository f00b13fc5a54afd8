"""The seed's lattice of shapes, typed again, and where the instructions that exist differ from it."""

from __future__ import annotations

import pytest

from nvbackend.atoms import atom, known_atoms
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import b1, bf16, e2m1, e3m2, e4m3, e5m2, f16, f32, s4, s8, s32, tf32, u4, u8
from nvbackend.tileiras.shape_lattice import in_seed_lattice, unfounded

INSIDE = [
    (70, (8, 8, 4), f16, f16, f32),
    (75, (16, 8, 8), bf16, bf16, f32),
    (80, (16, 8, 8), tf32, tf32, f32),
    (80, (16, 8, 16), f16, f16, f16),
    (80, (16, 8, 32), s8, u8, s32),
    (80, (16, 8, 64), u4, u4, s32),
    (89, (16, 8, 32), e4m3, e5m2, f32),
    (90, (64, 8, 16), f16, f16, f16),
    (90, (64, 256, 8), tf32, tf32, f32),
    (90, (64, 40, 64), s4, s4, s32),
    (100, (128, 64, 32), f16, f16, f32),
    (100, (64, 8, 8), tf32, tf32, f32),
    (120, (16, 8, 32), e3m2, e4m3, f32),
    (120, (16, 8, 64), e2m1, e2m1, f32),
]
OUTSIDE = [
    (70, (16, 8, 8), f16, f16, f32),
    (75, (16, 8, 8), tf32, tf32, f32),
    (80, (16, 8, 16), tf32, tf32, f32),
    (89, (16, 8, 32), e4m3, e4m3, f16),
    (90, (64, 12, 16), f16, f16, f32),
    (90, (128, 16, 16), f16, f16, f32),
    (100, (256, 64, 16), f16, f16, f32),
    (120, (16, 8, 64), e4m3, e4m3, f32),
    (86, (16, 8, 16), f16, f16, f32),
]


@pytest.mark.parametrize("asked", INSIDE, ids=str)
def test_what_the_lattice_has(asked) -> None:
    assert in_seed_lattice(*asked)


@pytest.mark.parametrize("asked", OUTSIDE, ids=str)
def test_what_the_lattice_has_not(asked) -> None:
    assert not in_seed_lattice(*asked)


def test_the_claims_that_no_instruction_keeps() -> None:
    """bf16 on sm_75, integers of wgmma with N that are not there, and wgmma of 4-bit integers: nothing else."""
    found = list(unfounded())
    of_a_warp = [claim for claim in found if claim[0] != 90]
    assert of_a_warp == [(75, (16, 8, 8), bf16)]
    missing = [n for n in range(8, 257, 8) if n > 24 and n % 16]
    expected = {(90, (64, n, k), a) for n in missing for a, k in ((s8, 32), (u8, 32), (b1, 256))}
    expected |= {(90, (64, n, 64), a) for n in range(8, 257, 8) for a in (s4, u4)}
    assert set(found) - {of_a_warp[0]} == expected
    assert len(found) == len(expected) + 1


def test_atoms_that_the_lattice_leaves_out() -> None:
    """Instructions that ptxas has and the seed's gate would refuse."""
    for name in (
        "SM75_8x8x16_S32S8S8S32_TN",
        "SM80_16x8x4_F32TF32TF32F32_TN",
        "SM80_8x8x4_F64F64F64F64_TN",
        "SM80_16x8x256_S32U1U1S32_TN_XORPOPC",
        "SM89_16x8x32_F16E4M3E4M3F16_TN",
        "SM90_16x8x16_F64F64F64F64_TN",
        "SM90_64x8x32_F16E4M3E4M3_SS_TN",
    ):
        one = atom(name)
        assert one in known_atoms()
        assert not in_seed_lattice(one.tier, one.shape, one.a, one.b, one.d), name


@pytest.mark.parametrize(
    ("m", "pair", "exists"), [(64, "", True), (128, "", True), (256, "_2x1SM", True), (64, "_2x1SM", False)]
)
def test_rows_of_one_cta_and_of_two(m: int, pair: str, exists: bool) -> None:
    """The lattice has M = 64 for one CTA and 128 for two; K of f16 is 16 whatever is major."""
    name = f"SM100_MMA_F16BF16{pair}_SS<half_t, half_t, float, {m}, 64, Major::MN, Major::K>"
    if exists:
        assert atom(name).shape == (m, 64, 16)
        return
    with pytest.raises(DiagnosticError, match=r"tcgen05\.m"):
        atom(name)
