"""How a message names what did not fit: an operator, an index, the call that the user made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import f16, i32


def builder() -> tuple:
    parameters = [nvb.Parameter("out", nvb.Pointer(i32)), nvb.Parameter("a", i32)]
    k = nvb.KernelBuilder("misfits", "sm_90a", threads=128, parameters=parameters)
    return k, *k.arguments


@pytest.mark.parametrize(
    ("call", "says", "fix"),
    [
        (lambda k, out, a: out[0] + [1], "Value + ...: other must be a value", "give it a value or a number"),
        (lambda k, out, a: [1] * out[0], "Value * ...: other must be a value", "give it a value or a number"),
        (lambda k, out, a: out[0] >> [1], "Value >> ...: other must be a value", "give it a value or a number"),
        (lambda k, out, a: [1] >> out[0], "Value >> ...: other must be a value", "give it a value or a number"),
        (lambda k, out, a: out[0] | [1], "Value | ...: other must be a value", "give it a value or a number"),
        (lambda k, out, a: k.wgmma.accumulator(8)["x"], "index must be int, not 'x'", "write Accumulator[index], with"),
    ],
)
def test_an_operator_and_an_index_are_written_as_python_has_them(
    call: Callable[..., object], says: str, fix: str
) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(*builder())
    (found,) = caught.value.diagnostics
    assert found.rule_id == "call.argument"
    assert says in found.message
    assert fix in found.fix


@pytest.mark.parametrize(
    ("call", "says", "fix"),
    [
        (lambda k, out, a: k.tma_epilogue(out, 64), "k.tma_epilogue: target must be", "nvb.TensorMap(element, box="),
        (
            lambda k, out, a: k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, nvb.f32)).smem_a(64.0),
            "TiledWgmma.smem_a: k must be int",
            "TiledWgmma.smem_a(k: int",
        ),
        (lambda k, out, a: k.pipeline(2.0, a=(f16, 64)), "k.pipeline: stages must be int", "k.pipeline(3, ...)"),
    ],
)
def test_what_a_call_passes_on_is_named_as_the_user_gave_it(call: Callable[..., object], says: str, fix: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(*builder())
    found = caught.value.diagnostics[0]
    assert says in found.message
    assert fix in found.fix
