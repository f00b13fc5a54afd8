"""Modules of several kernels, and grids of many CTAs."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator, multiprocessors

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


@pytest.mark.parametrize("target", ["sm_90", "sm_9", "hello", ""])
def test_a_simulator_of_a_target_runs_texts_for_that_one(target: str) -> None:
    with pytest.raises(DiagnosticError, match=f"the text is for sm_90a, and the simulator for {target}") as raised:
        Simulator(target).load(HEAD + GOOD)
    assert "Simulator()" in raised.value.diagnostics[0].fix
    assert Simulator("sm_90a").load(HEAD + GOOD).kernels == ("good",)


@pytest.mark.parametrize("target", [90, b"sm_90a"])
def test_a_target_is_a_text(target: object) -> None:
    with pytest.raises(DiagnosticError, match=r"target must be str \| None"):
        Simulator(target)  # type: ignore[arg-type]


def test_multiprocessors_are_those_of_a_target() -> None:
    assert [multiprocessors(name) for name in ("sm_80", "sm_90a", "sm_100f", "sm_120")] == [108, 132, 148, 188]
    for name in ("hello", "sm_9", "90", "sm_90b"):
        with pytest.raises(DiagnosticError, match=f"'{name}' is not the name of a target"):
            multiprocessors(name)


def test_a_parameter_that_is_a_tensor_map() -> None:
    kernel = ".visible .entry k(.param .align {align} .b8 x[128]) {{ ret; }}\n"
    for align, fix in ((64, "pass nvb.TensorMap(element, box).bind(array)"), (8, "pass a number or bytes")):
        with pytest.raises(DiagnosticError, match="x has 128 bytes, and is given an array") as raised:
            Simulator().load(HEAD + kernel.format(align=align)).launch("k", args=[np.zeros((64, 64), np.float16)])
        assert raised.value.diagnostics[0].fix == fix


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


def test_a_module_without_variables_has_no_names_to_choose_from() -> None:
    with pytest.raises(DiagnosticError, match=r"the module has no global variable 'x', and no other"):
        Simulator().load(HEAD + GOOD).global_bytes("x")
    with pytest.raises(DiagnosticError, match=r"the module has no kernel 'x', only good"):
        Simulator().load(HEAD + GOOD).launch("x")


@pytest.mark.parametrize("given", [np.zeros(0, np.uint32), 0, 64])
def test_a_null_pointer_is_not_placed_before_another_allocation(given: object) -> None:
    with pytest.raises(DiagnosticError, match="it is a null pointer, which an empty array is given as") as raised:
        Simulator().load(HEAD + GOOD).launch("good", args=[given])
    assert raised.value.diagnostics[0].rule_id == "simulator.bounds"
