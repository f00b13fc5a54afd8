"""Whole programs by hand: control flow, calls, memory of every space, against numbers that NumPy gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator
from tests.simulator.calls import bodies

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"

LOOPS = """
.extern .shared .align 16 .b8 dyn[];
.const .align 4 .b8 table[8] = {0, 0, 128, 63, 0, 0, 32, 64};
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<10>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n];
    setp.ge.s32 %p1, %r4, %r5;
    @%p1 bra DONE;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %r6, [%rd4];
    ld.const.f32 %r9, [table+4];
    mov.u32 %r8, 0;
LOOP:
    add.f32 %r6, %r6, %r9;
    add.s32 %r8, %r8, 1;
    setp.le.s32 %p2, %r8, %r3;
    @%p2 bra LOOP;
    mov.u32 %r7, dyn;
    shl.b32 %r8, %r3, 2;
    add.s32 %r7, %r7, %r8;
    st.shared.f32 [%r7], %r6;
    ld.shared.f32 %r6, [%r7];
    st.global.f32 [%rd5], %r6;
DONE:
    ret;
}
"""

FACTORIALS = """
.func (.param .b32 res) factorial(.param .b32 n)
{
    .reg .pred p; .reg .b32 %r<5>;
    ld.param.b32 %r1, [n];
    setp.ne.s32 p, %r1, 0;
    @p bra AGAIN;
    mov.u32 %r2, 1;
    st.param.b32 [res], %r2;
    ret;
AGAIN:
    add.s32 %r2, %r1, -1;
    { .param .b32 a; .param .b32 r;
    st.param.b32 [a], %r2;
    call.uni (r), factorial, (a);
    ld.param.b32 %r3, [r]; }
    mul.lo.s32 %r3, %r3, %r1;
    st.param.b32 [res], %r3;
    ret;
}
.visible .entry k(.param .u64 x)
{
    .reg .b32 %r<10>; .reg .b64 %rd<10>;
    .local .align 8 .b8 depot[16];
    mov.u32 %r1, %tid.x;
    { .param .b32 a; .param .b32 r;
    st.param.b32 [a], %r1;
    call.uni (r), factorial, (a);
    ld.param.b32 %r3, [r]; }
    mov.u64 %rd3, depot; cvta.local.u64 %rd3, %rd3;
    st.u32 [%rd3+4], %r3; ld.local.u32 %r4, [depot+4];
    ld.param.u64 %rd1, [x];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r4;
    exit;
}
"""


def test_loops_of_different_lengths() -> None:
    module = Simulator().load(HEAD + LOOPS)
    x = np.arange(900, dtype=np.float32)
    y = np.zeros_like(x)
    module.launch("k", grid=(8,), block=(128,), args=[x, y, np.int32(900)], shared=512)
    assert np.array_equal(y, x + np.float32(2.5) * (np.arange(900, dtype=np.float32) % 128 + 1))


def test_a_function_that_calls_itself_and_local_memory() -> None:
    out = np.zeros(12, np.uint32)
    Simulator().load(HEAD + FACTORIALS).launch("k", block=(12,), args=[out])
    assert out.tolist() == [math.factorial(n) for n in range(12)]


def test_an_array_that_is_too_short() -> None:
    module = Simulator().load(HEAD + LOOPS)
    x, y = np.zeros(500, np.float32), np.zeros(900, np.float32)
    with pytest.raises(DiagnosticError) as caught:
        module.launch("k", grid=(8,), block=(128,), args=[x, y, np.int32(900)], shared=512)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "simulator.bounds"
    assert "thread 116 of CTA 3 (and 399 more) reads 4 bytes" in found.message
    assert "it is right at the end of x (2000 bytes)" in found.message


def test_what_is_not_known_is_said_with_all_lines() -> None:
    with pytest.raises(DiagnosticError) as caught:
        Simulator().load(HEAD + ".entry k() {\nfrobnicate.b32;\nld.weird.b32 _, [0];\nret;\n}")
    assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.unknown"] * 2
    assert [one.location.line for one in caught.value.diagnostics if one.location] == [5, 6]


SPINS = """
.visible .entry k(.param .u64 x, .param .u32 release)
{
    .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [x]; ld.param.u32 %r5, [release];
    setp.eq.u32 %p1, %r1, 5;
    @%p1 bra RELEASE;
WAIT:
    ld.volatile.global.u32 %r2, [%rd1];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra WAIT;
    bra.uni END;
RELEASE:
    st.volatile.global.u32 [%rd1], %r5;
END:
    ret;
}
"""


BOUNDS = {
    (".maxntid 64", (96,)): "a CTA of 96 threads, and the PTX has .maxntid (64, 1, 1): give a block of 64 threads at",
    (".maxntid 16, 4", (65,)): "a CTA of 65 threads, and the PTX has .maxntid (16, 4, 1): give a block of 64 threads",
    (".reqntid 16, 4", (64,)): "a CTA of (64, 1, 1) threads, and the PTX has .reqntid (16, 4, 1): give block=(16, 4",
}


@pytest.mark.parametrize(("directive", "block"), BOUNDS)
def test_a_launch_for_other_threads_than_the_ptx_has(directive: str, block: tuple[int, ...]) -> None:
    module = Simulator().load(f"{HEAD}.visible .entry k() {directive}\n{{ ret; }}")
    with pytest.raises(DiagnosticError, match=r"simulator\.launch") as raised:
        module.launch("k", block=block)
    (found,) = raised.value.diagnostics
    assert BOUNDS[directive, block] in f"{found.message}: {found.fix}"


@pytest.mark.parametrize(("directive", "block"), [(".maxntid 16, 4", (64,)), (".reqntid 16, 4", (16, 4))])
def test_a_launch_for_the_threads_that_the_ptx_has(directive: str, block: tuple[int, ...]) -> None:
    report = Simulator().load(f"{HEAD}.visible .entry k() {directive}\n{{ ret; }}").launch("k", block=block)
    assert report.instructions["ret"] == 64


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_threads_that_spin_let_the_others_run(seed: int) -> None:
    flag = np.zeros(1, np.uint32)
    Simulator().load(HEAD + SPINS).launch("k", block=(64,), args=[flag, 1], seed=seed)
    assert flag[0] == 1


def test_threads_that_spin_for_nothing() -> None:
    with pytest.raises(
        DiagnosticError, match=r"thread 0 of CTA 0 and 62 more from PTX line 12\); they read 4 bytes at x\+0"
    ) as caught:
        Simulator().load(HEAD + SPINS).launch("k", block=(64,), args=[np.zeros(1, np.uint32), 0])
    assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.livelock"]


@pytest.mark.parametrize("offset", [-4, -4096, 64, 4096])
def test_an_index_outside_names_the_array_that_it_is_nearest_to(offset):
    """Two arrays: an index before the second one is not one after the first one."""
    side = (
        f"{-offset} bytes before the start"
        if offset < 0
        else f"{offset - 64} bytes after the end"
        if offset > 64
        else "right at the end"
    )
    for number in (0, 1):
        arrays = [np.zeros(16, np.uint32), np.zeros(16, np.uint32)]
        with pytest.raises(DiagnosticError, match=f"{side} of a{number} "):
            bodies.run(f"ld.global.u32 %r3, [%rd{number}+{offset}];", *arrays)


REGISTERS = """
.func (.reg .b32 r) sum_to_five(.reg .b32 n)
{
    .reg .pred p; .reg .b32 %x<2>;
    mov.u32 r, n;
    setp.ge.u32 p, n, 5;
    @p ret;
    add.u32 %x0, n, 1;
    call (%x1), sum_to_five, (%x0);
    add.u32 r, %x1, n;
    ret;
}
.func (.reg .b64 high, .reg .f32 low) parts(.reg .b64 a, .reg .f32 b) { add.u64 high, a, 1; add.f32 low, b, b; ret; }
.visible .entry k(.param .u64 x)
{
    .reg .b32 %r<4>; .reg .b64 %rd<5>; .reg .f32 %f<3>;
    mov.u32 %r0, %tid.x;
    call (%r1), sum_to_five, (%r0);
    cvt.u64.u32 %rd1, %r1; cvt.rn.f32.u32 %f1, %r0;
    call (%rd2, %f2), parts, (%rd1, %f1);
    cvt.u32.u64 %r2, %rd2; cvt.rzi.u32.f32 %r3, %f2; mad.lo.u32 %r2, %r3, 100, %r2;
    ld.param.u64 %rd3, [x]; mul.wide.u32 %rd4, %r0, 4; add.s64 %rd3, %rd3, %rd4;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""


def test_parameters_and_results_in_registers() -> None:
    """`.reg` in place of `.param`, which ptxas takes too; a recursive function keeps its own."""
    x = np.zeros(32, np.uint32)
    Simulator().load(HEAD + REGISTERS).launch("k", block=(32,), args=[x])
    each = np.arange(32)
    sums = [sum(range(n, 6)) if n < 5 else n for n in each]
    np.testing.assert_array_equal(x, each * 200 + sums + 1)


ENDLESS = """
.func down(.param .b32 n)
{
    .reg .b32 %r<3>;
    .local .b8 depot[8176];
    ld.param.b32 %r1, [n];
    add.u32 %r2, %r1, 1;
    { .param .b32 a;
    st.param.b32 [a], %r2;
    call.uni down, (a); }
    ret;
}
.visible .entry k()
{
    .reg .b32 %r<2>;
    mov.u32 %r1, 0;
    { .param .b32 a;
    st.param.b32 [a], %r1;
    call.uni down, (a); }
    ret;
}
"""


def test_a_recursion_without_an_end_is_said_by_the_name_of_its_function() -> None:
    """A call takes 16 bytes of the stack and the local memory of its caller, of the 512 KB that a thread has."""
    with pytest.raises(DiagnosticError) as caught:
        Simulator().load(HEAD + ENDLESS).launch("k", block=(32,))
    (fault,) = caught.value.diagnostics
    assert fault.rule_id == "simulator.stack"
    assert f"thread 0 of CTA 0 calls down {(512 << 10) // (16 + 8176) + 1} calls deep" in fault.message
    assert "512 KB" in fault.message


PARTS = """
.func (.param .align 4 .b8 both[8]) halves(.param .b32 n)
{
    .reg .b32 %r<3>; .reg .pred %p<2>;
    ld.param.b32 %r1, [n]; setp.eq.u32 %p1, %r1, 7; st.param.b32 [both], %r1; st.param.b32 [both+4], %r1;
    ret;
}
.visible .entry k()
{
    .reg .b32 %r<3>;
    mov.u32 %r1, 7;
    { .param .b32 a; .param .align 4 .b8 r[8];
    st.param.b32 [a], %r1;
    call (r), halves, (a);
    ld.param.b32 %r2, [r+4]; }
    ret;
}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "rule", "told"),
    [
        ("[both+4]", "[both+8]", "simulator.bounds", "writes 4 bytes at param address both+8"),
        ("[both+4]", "[both+-4]", "simulator.bounds", "both has 8 bytes"),
        ("[both+4]", "[both+2]", "simulator.misaligned", "not a multiple of 4"),
        ("[r+4]", "[r+8]", "simulator.bounds", "reads 4 bytes"),
        ("[r+4]", "[r+1]", "simulator.misaligned", "reads 4 bytes"),
        ("[both+4]", "[both]", "", ""),
        ("st.param.b32 [both+4]", "@!%p1 st.param.b32 [both+8]", "", ""),
    ],
)
def test_accesses_beside_the_parameters_of_a_function(right: str, wrong: str, rule: str, told: str) -> None:
    module = Simulator().load(HEAD + PARTS.replace(right, wrong))
    if not rule:
        module.launch("k", block=(32,))
        return
    with pytest.raises(DiagnosticError) as caught:
        module.launch("k", block=(32,))
    (found,) = caught.value.diagnostics
    assert found.rule_id == rule
    assert told in found.message


NUMBERS = """
.visible .entry k(.param .u64 out, .param .f32 a, .param .f64 b, .param .s32 c, .param .b32 d)
{
    .reg .b32 %r<5>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    ld.param.f32 %r1, [a]; ld.param.f64 %rd2, [b]; ld.param.s32 %r2, [c]; ld.param.b32 %r3, [d];
    st.global.b32 [%rd1], %r1; st.global.b64 [%rd1+8], %rd2; st.global.b32 [%rd1+16], %r2;
    st.global.b32 [%rd1+20], %r3;
    ret;
}
"""


@pytest.mark.parametrize("a", [2, 2.0, np.int32(2), np.float32(2), np.uint32(2), np.float64(2), np.array(2, ">f4")])
@pytest.mark.parametrize("b", [3, np.int64(3), np.float64(3), np.float32(3), np.array(3, ">i8")])
def test_a_number_of_numpy_counts_by_its_value(a: object, b: object) -> None:
    """Of as many bytes as the parameter too: the bits of an integer are not those of the float."""
    out = np.zeros(24, np.uint8)
    module = Simulator().load(HEAD + NUMBERS)
    module.launch("k", args=[out, a, b, np.uint32(2**32 - 5), np.float32(1.5)])
    assert (out[:4].view(np.float32)[0], out[8:16].view(np.float64)[0]) == (2.0, 3.0)
    assert (out[16:20].view(np.int32)[0], out[20:].view(np.float32)[0]) == (-5, 1.5)


def test_a_float_of_numpy_is_no_integer() -> None:
    module = Simulator().load(HEAD + NUMBERS)
    with pytest.raises(DiagnosticError, match=r"c is \.s32, and is given 4\.5"):
        module.launch("k", args=[np.zeros(24, np.uint8), 1.0, 1.0, np.float32(4.5), 0])
