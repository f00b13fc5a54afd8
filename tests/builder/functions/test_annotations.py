"""Device functions whose annotations differ: each call has the types that hold then."""

from __future__ import annotations

import gc

import pytest

import nvbackend as nvb
from nvbackend import f32, i32


def built(body):
    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, out: nvb.Pointer[f32], n: i32):
        body(k, out, n)

    return kernel.build()


def added_to_itself(kind, inline, name="same"):
    own = {"nvb": nvb, "kind": kind}
    exec(f"@nvb.function(inline={inline}, name={name!r})\ndef same(k, x: kind) -> kind:\n    return x + x", own)
    return own["same"]


@pytest.mark.parametrize("inline", [True, False])
def test_each_function_of_a_loop_has_its_own_types(inline) -> None:
    def body(k, out, n):
        for number, kind in enumerate((f32, i32, f32)):
            function = added_to_itself(kind, inline, f"same_{number}")
            out[number] = function(k, out[3] if kind is f32 else n).to(f32)
            del function
            gc.collect()

    assert built(body).ir.count("fadd") == 2


@pytest.mark.parametrize("inline", [True, False])
def test_annotations_are_read_again_for_each_kernel(inline) -> None:
    function = added_to_itself(f32, inline)
    first = built(lambda k, out, n: out.__setitem__(0, function(k, out[1])))
    function._function.__annotations__.update(x=i32, **{"return": i32})
    second = built(lambda k, out, n: out.__setitem__(0, function(k, n).to(f32)))
    assert ["fadd" in each.ir for each in (first, second)] == [True, False]
