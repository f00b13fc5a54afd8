"""k.tiled_mma refuses at the call what the target does not have."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError
from nvbackend.builder.kernel.kernel import KernelBuilder

TENSOR_CORES = {
    "SM80_16x8x16_F32F16F16F32_TN": ("sm_75", "sm_80", "atom.target"),
    "SM89_16x8x32_F32E4M3E4M3F32_TN": ("sm_86", "sm_89", "atom.target"),
    "SM90_64x64x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>": ("sm_90", "sm_90a", "wgmma.target"),
    "SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, UMMA::Major::K, UMMA::Major::K>": (
        "sm_90a",
        "sm_100a",
        "tcgen05.target",
    ),
    "SM100_MMA_S8_SS<int8_t, int8_t, int32_t, 128, 64, UMMA::Major::K, UMMA::Major::K>": (
        "sm_103a",
        "sm_100a",
        "tcgen05.int8-target",
    ),
}
"""A chip that lacks the instruction, one that has it, and the rule of its family."""


@pytest.mark.parametrize("name", TENSOR_CORES)
def test_an_instruction_that_the_target_does_not_have_is_refused_at_the_call(name: str) -> None:
    lacks, has, rule = TENSOR_CORES[name]
    with pytest.raises(DiagnosticError) as caught:
        KernelBuilder("lacks", lacks, threads=128).tiled_mma(name)
    assert [each.rule_id for each in caught.value.diagnostics] == [rule]
    assert lacks in str(caught.value)
    assert KernelBuilder("has", has, threads=128).tiled_mma(name) is not None


@pytest.mark.parametrize("given", [3, None, 2.5, object], ids=repr)
def test_what_is_no_instruction_is_told_what_may_be_given(given: object) -> None:
    with pytest.raises(DiagnosticError) as caught:
        KernelBuilder("none", "sm_90a", threads=128).tiled_mma(given)  # type: ignore[arg-type]
    (found,) = caught.value.diagnostics
    assert (found.rule_id, found.message) == (
        "mma.tiled",
        f"{given!r} cannot be laid over tiles: it is not an instruction",
    )
    assert "nvb.wgmma.mma_async" in (found.fix or "")
