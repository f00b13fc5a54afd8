"""malloc and free in a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator

TEXT = """.version 9.0
.target sm_90a
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 size);
.extern .func free (.param .b64 address);
.visible .entry k(.param .u64 out) {{
.reg .b64 %rd<8>; .reg .b32 %r<4>;
mov.u32 %r0, %tid.x;
ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd0, %rd0, %rd1;
{{ .param .b64 size; st.param.b64 [size], 16; .param .b64 back;
call.uni (back), malloc, (size); ld.param.b64 %rd2, [back]; }}
st.u32 [%rd2+{offset}], %r0; bar.sync 0; ld.u32 %r1, [%rd2+{offset}];
{{ .param .b64 address; st.param.b64 [address], %rd2; call.uni free, (address); }}
st.global.u32 [%rd0], %r1;
ret;
}}
"""


def run(offset: int) -> list[int]:
    found = np.zeros(64, np.uint32)
    Simulator().load(TEXT.format(offset=offset)).launch("k", block=(64,), args=[found])
    return found.tolist()


@pytest.mark.parametrize("offset", [0, 12])
def test_each_thread_has_memory_of_its_own(offset):
    assert run(offset) == list(range(64))


def test_an_access_past_the_end_names_it():
    with pytest.raises(DiagnosticError, match="malloc") as caught:
        run(16)
    assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.bounds"]


def test_a_function_of_the_module_is_called_and_not_the_one_of_its_name():
    text = """.version 9.0
.target sm_90a
.address_size 64
.func free (.param .b64 p) { .reg .b64 %a<2>; ld.param.b64 %a0, [p]; st.u32 [%a0], 7; ret; }
.visible .entry k(.param .u64 out) {
.reg .b64 %rd<2>; ld.param.u64 %rd0, [out];
{ .param .b64 address; st.param.b64 [address], %rd0; call.uni free, (address); }
ret; }
"""
    out = np.zeros(4, np.uint32)
    Simulator().load(text).launch("k", args=[out])
    assert out.tolist() == [7, 0, 0, 0]
