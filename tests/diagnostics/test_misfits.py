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


def _elements(k: nvb.KernelBuilder) -> nvb.TileValues:
    return k.wgmma.accumulator(16).elements()


@pytest.mark.parametrize(
    ("call", "says", "fix"),
    [
        (lambda k, out, a: k.math.max(_elements(k), 0.0), "left must be a value", "x.map(k.math.max, y)"),
        (lambda k, out, a: k.math.max(0.0, k.var(_elements(k).rows(0.0))), "right must be", "x.map(k.math.max, y)"),
        (
            lambda k, out, a: k.select(_elements(k) > 0.0, *2 * [_elements(k)]),
            "condition must be",
            "condition.map(k.select, yes, no)",
        ),
        (lambda k, out, a: _elements(k)[0, 0], "index must be int | slice", "for (row, column), value in"),
        (lambda k, out, a: _elements(k).columns(out), "value is an address", "columns(lambda column: address[column])"),
        (lambda k, out, a: _elements(k).rows(out), "value is an address", "rows(lambda row: address[row])"),
        (
            lambda k, out, a: _elements(k) + k.tensor(out, nvb.layout.Layout((64, 16), (16, 1))),
            "<tensor of s32",
            "compute by values.load(tensor)",
        ),
        (
            lambda k, out, a: k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64), stages=2),
            "unexpected keyword argument 'stages'",
            "k.shared_tiles(layout, count)",
        ),
    ],
)
def test_what_tiles_are_not_says_what_they_are(call: Callable[..., object], says: str, fix: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(*builder())
    found = caught.value.diagnostics[0]
    assert says in found.message
    assert fix in found.fix
