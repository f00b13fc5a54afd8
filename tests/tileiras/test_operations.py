"""The operations of the seed's dialect: which atoms each carries."""

from __future__ import annotations

import pytest

from nvbackend.atoms import atom, known_atoms
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
