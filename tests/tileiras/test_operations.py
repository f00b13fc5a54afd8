"""The operations of the seed's dialect: which atoms each carries, and where those have their operands."""

from __future__ import annotations

import pytest

from nvbackend.atoms import Residency, atom, known_atoms
from nvbackend.tileiras.operations import seed_operation

E2M1S = "float_e2m1_t, float_e2m1_t, float, float_ue8m0_t"
OPERATIONS = {
    "SM75_16x8x8_F32F16F16F32_TN": None,
    "SM80_16x8x16_F32F16F16F32_TN": "cute_nvgpu.sm80.mma",
    "SM80_SPARSE_16x8x32_S32S8S8S32_TN": "cute_nvgpu.sm80.sparse_mma",
    "SM89_16x8x32_F32E4M3E5M2F32_TN": "cute_nvgpu.sm89.mma",
    "SM90_16x8x16_F64F64F64F64_TN": None,
    "sm90_wgmma_m64n128k16_f32_f16_f16": "cute_nvgpu.sm90.mma",
    "SM90::GMMA::SPARSE::GMMA_64x8x32_F32F16F16_SS<Major::K, Major::K>": None,
    "SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, Major::K, Major::K>": "cute_nvgpu.sm100.mma",
    "SM100_MMA_F16BF16_SS_SPARSE<half_t, half_t, float, 128, 64, Major::K, Major::K>": "cute_nvgpu.sm100.mma_sp",
    f"SM100_MMA_MXF4_SS<{E2M1S}, 128, 64, 32, Major::K, Major::K>": "cute_nvgpu.sm100.mma_bs",
    f"SM100_MMA_MXF4NVF4_SS_SPARSE<{E2M1S}, 128, 64, 64, Major::K, Major::K>": "cute_nvgpu.sm100.mma_bs_sp",
    "SM120_16x8x32_TN_VS<float_e4m3_t, float_e4m3_t, float, float_ue8m0_t, 32>": "cute_nvgpu.SM120.mma_bs",
    "SM120_16x8x32_TN<float_e3m2_t, float_e5m2_t, float>": None,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_operation_that_carries_an_atom(name: str) -> None:
    assert seed_operation(atom(name)) == OPERATIONS[name]


def test_every_operation_of_a_warp_or_warpgroup_has_atoms() -> None:
    assert {seed_operation(one) for one in known_atoms()} == {
        None,
        *(f"cute_nvgpu.{name}" for name in ("sm80.mma", "sm80.sparse_mma", "sm89.mma", "sm90.mma", "SM120.mma_bs")),
    }


PLACES = {"R": Residency.REGISTERS, "S": Residency.SHARED_DESCRIPTOR, "T": Residency.TENSOR_MEMORY}
CONTRACT = {
    # "Operand Contract by Tier": A, B and D, and what a sparse or a block-scaled one has besides
    "SM70_8x8x4_F32F16F16F32_TN": "RRR",
    "SM80_16x8x16_F32F16F16F32_TN": "RRR",
    "SM80_SPARSE_16x8x32_F32F16F16F32_TN": "RRR metadata",
    "SM89_16x8x32_F32E4M3E5M2F32_TN": "RRR",
    "SM90_64x64x16_F32F16F16_RS<Major::K, Major::K>": "RSR",
    "SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>": "SSR",
    "SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, Major::K, Major::K>": "SST",
    "SM100_MMA_F16BF16_TS<half_t, half_t, float, 128, 64, Major::K, Major::K>": "TST",
    f"SM100_MMA_MXF4_SS<{E2M1S}, 128, 64, 32, Major::K, Major::K>": "SST factors",
    f"SM100_MMA_MXF4NVF4_SS_SPARSE<{E2M1S}, 128, 64, 64, Major::K, Major::K>": "SST metadata factors",
    "SM120_16x8x32_TN_VS<float_e4m3_t, float_e4m3_t, float, float_ue8m0_t, 32>": "RRR factors",
}


@pytest.mark.parametrize("name", CONTRACT)
def test_where_the_operands_of_a_tier_are(name: str) -> None:
    found = atom(name)
    places, *besides = CONTRACT[name].split()
    assert [found.a_residency, found.b_residency, found.d_residency] == [PLACES[one] for one in places]
    assert (found.sparsity is not None) is ("metadata" in besides)
    assert (found.block_scale is not None) is ("factors" in besides)
