"""Names of chips in place of a target: the fix names the target of the chip."""

import pytest

import nvbackend as nvb


@pytest.mark.parametrize(("name", "target"), [("H100", "sm_90a"), ("h200", "sm_90a"), ("L40S", "sm_89")])
def test_a_chip_s_name_leads_to_its_target(name: str, target: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as refused:
        nvb.Target.parse(name)
    (found,) = refused.value.diagnostics
    assert f"that of {name} is {target}" in f"{found.message} {found.fix}"
