"""Arrays whose bytes are not the numbers that a kernel would read."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x) {
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [x];
    st.global.f32 [%rd1], 0f3F800000;
    ret;
}
"""


@pytest.mark.parametrize("kind", [">f4", "O", [("a", "<f4"), ("b", ">f4")]])
def test_they_are_refused(kind: object) -> None:
    array = np.zeros(4, kind)  # type: ignore[call-overload]
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.simulator.Simulator().load(PTX).launch("k", args=[array])
    (found,) = caught.value.diagnostics
    assert found.rule_id == "simulator.launch"
    assert found.message.startswith("k cannot be launched: x is given an array of ")


def test_others_are_taken() -> None:
    array = np.zeros(4, "<f4")
    nvb.simulator.Simulator().load(PTX).launch("k", args=[array])
    assert array.tolist() == [1, 0, 0, 0]
