"""Several results of functions of other compilers: the members of a struct."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, f64, i32, i64, s8, s16
from tests.builder.functions.test_foreign import HEAD, of_text, ran, refused

SPLIT = (
    HEAD
    + """
.visible .func (.param .align 8 .b8 r[24]) split(.param .b32 x, .param .b64 wide)
{
    .reg .f32 %f<3>; .reg .b32 %r<3>; .reg .b64 %d<2>;
    ld.param.f32 %f1, [x];
    ld.param.b64 %d1, [wide];
    cvt.rzi.s32.f32 %r1, %f1;
    cvt.rn.f32.s32 %f2, %r1;
    sub.f32 %f2, %f1, %f2;
    st.param.b8 [r], %r1;
    st.param.f32 [r+4], %f2;
    st.param.b64 [r+8], %d1;
    neg.s32 %r2, %r1;
    st.param.b16 [r+16], %r2;
    ret;
}
"""
)


def test_several_results_are_the_members_of_a_struct() -> None:
    """As C lays out struct { signed char; float; long long; short; }."""
    split = nvb.extern_function("split", {"x": f32, "wide": i64}, (s8, f32, i64, s16), ptx=SPLIT)
    assert split.result == (s8, f32, i64, s16)

    @nvb.kernel("sm_90", threads=32)
    def kernel(k, x: nvb.Pointer[f32], out: nvb.Pointer[f64]):
        t = k.thread_id()
        for at, each in enumerate(split(k, x[t], t.to(i64) * 3)):
            out[t * 4 + at] = each.to(f64)

    x, out = np.arange(32, dtype=np.float32) * 1.25, np.zeros((32, 4))
    ran(kernel, x, out)
    whole = np.trunc(x)
    assert (out == np.stack([whole, x - whole, np.arange(32) * 3, -whole], 1)).all()


def test_several_return_parameters_are_refused() -> None:
    """ptxas: multiple return parameters require .reg."""
    text = of_text("st.param.b32 [low], 1; st.param.b32 [high], 2;", result=".param .b32 low, .param .b32 high")
    rule, message, _ = refused(nvb.extern_function, "f", {"n": i32}, [i32, i32], ptx=text)
    assert rule == "function.foreign" and "its text returns .param .b32 low, .param .b32 high" in message


def test_our_own_function_with_several_results() -> None:
    @nvb.function
    def halves(k, x: f32) -> tuple[f32, i32]:
        return x * 0.5, x.to(i32)

    imported = nvb.extern_function("halves", {"x": f32}, (f32, i32), ptx=halves.compile("sm_90").ptx)

    @nvb.kernel("sm_90", threads=32)
    def kernel(k, x: nvb.Pointer[f32]):
        half, whole = imported(k, x[k.thread_id()])
        x[k.thread_id()] = half + whole.to(f32)

    x = np.arange(32, dtype=np.float32)
    ran(kernel, x)
    assert (x == np.arange(32) * 1.5).all()


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ((s8, f32), "declared to return s8, f32, and its text returns .param .b8 r[24]"),
        ((s8, f32, i64, f64), None),
        ((s8, f32, nvb.e2m1), "which C cannot return"),
        ("f32", "which C cannot return"),
        (f32, "its result is declared f32"),
        ((), "declared to return nothing"),
    ],
)
def test_several_results_that_differ(result, said) -> None:
    if said is None:  # members of the same sizes: the text does not say which types they are
        nvb.extern_function("split", {"x": f32, "wide": i64}, result, ptx=SPLIT)
        return
    rule, message, _ = refused(nvb.extern_function, "split", {"x": f32, "wide": i64}, result, ptx=SPLIT)
    assert rule == "function.foreign" and said in message
