"""Modules of several kernels, and grids of many CTAs."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
GOOD = (
    ".visible .entry good(.param .u64 x) { .reg .b64 %rd<2>; ld.param.u64 %rd0, [x]; st.global.u32 [%rd0], 7; ret; }\n"
)
BAD = ".visible .entry bad() { .reg .b32 %r<2>; add.sideways.u32 %r0, %r0, 1; ret; }\n"
MEETING = """.visible .entry meet(.param .u64 x) {
.reg .b64 %rd<2>; .reg .b32 %r<4>; .reg .pred %p<2>;
ld.param.u64 %rd0, [x]; mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; @%p0 bra DONE;
atom.add.release.gpu.global.u32 %r1, [%rd0], 1;
L: ld.acquire.gpu.global.u32 %r2, [%rd0]; setp.ne.u32 %p1, %r2, %nctaid.x; @%p1 bra L;
DONE: bar.sync 0; ret; }
"""


@pytest.mark.parametrize("given", [b"", None, Simulator()])
def test_what_is_loaded_is_a_text(given: object) -> None:
    with pytest.raises(DiagnosticError, match=r"call\.argument.*Simulator\.load: ptx must be str, not "):
        Simulator().load(given)  # type: ignore[arg-type]


def test_a_kernel_that_is_not_known_leaves_the_others() -> None:
    module = Simulator().load(HEAD + BAD + GOOD)
    assert module.kernels == ("bad", "good")
    out = np.zeros(4, np.uint32)
    module.launch("good", args=[out])
    assert out[0] == 7
    for use in (lambda: module.launch("bad"), lambda: module.start("bad"), lambda: module.static_shared_bytes("bad")):
        with pytest.raises(DiagnosticError, match="sideways"):
            use()


def test_a_module_without_a_known_kernel_is_refused() -> None:
    with pytest.raises(DiagnosticError) as raised:
        Simulator().load(HEAD + BAD + BAD.replace("bad", "worse"))
    assert [one.rule_id for one in raised.value.diagnostics] == ["simulator.unknown"] * 2


def test_ctas_of_a_large_grid_meet() -> None:
    """They have more threads than an ordinary wave."""
    out = np.zeros(4, np.uint32)
    Simulator().load(HEAD + MEETING).launch("meet", grid=(24,), block=(1024,), args=[out])
    assert out[0] == 24
