"""Each function of k.math with each type that it has not: refused under its own name, at the user's line."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import KernelBuilder, Parameter, e4m3, f32, f64, s32, s64

OTHERS = {"pack_pair", "permute_bytes"}
OF_INTEGERS = {"abs", "min", "max"}
OF_F64 = {
    *("abs", "min", "max", "copysign", "floor", "ceil", "trunc", "rint", "add", "sub", "mul", "fma"),
    *("divide", "sqrt", "rsqrt", "reciprocal"),
    *("exp", "exp2", "log", "log2", "log10", "pow", "sin", "cos", "tanh", "erf", "sigmoid", "silu", "gelu"),
}
"""The first two lines are all that PTX has of doubles (PTX ISA 9.7.3); the third are series."""


def functions() -> list[str]:
    public = [name for name in dir(KernelBuilder("all", "sm_90a", threads=32).math) if not name.startswith("_")]
    return [name for name in public if name not in OTHERS]


def refused(name: str, element: nvb.ElementType, **options: Any) -> list[str]:
    """The first lines of the texts, and what else there is to say."""
    k = KernelBuilder("refused", "sm_90a", threads=32, parameters=[Parameter("x", nvb.Pointer(element))])
    function = getattr(k.math, name)
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    try:
        function(*[k.arguments[0][0]] * kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD), **options)
    except nvb.DiagnosticError as error:
        odd = [one for one in error.diagnostics if one.location is None or one.location.file != __file__]
        return [f"{one.rule_id}: {one.message}" for one in error.diagnostics] + [str(one) for one in odd]
    return []


FAST_UNLESS_SAID = {"exp2", "log2", "rsqrt", "reciprocal"}
BY_SERIES = {"exp", "exp2", "log", "log2", "log10", "pow", "sin", "cos"}
"""Their accurate forms are made of operations that keep subnormal numbers."""


def ptx(name: str, **options: Any) -> str:
    k = KernelBuilder("one", "sm_90a", threads=32, parameters=[Parameter("x", nvb.Pointer(f32))])
    (x,), function = k.arguments, getattr(k.math, name)
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    x[0] = function(*[x[place] for place in range(kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD))], **options)
    return str(k.finish().compile(assemble=False).ptx)


def test_what_is_left_out_of_a_call() -> None:
    """Nothing is approximate or flushed but what the docstrings say."""
    math = KernelBuilder("all", "sm_90a", threads=32).math
    for name in functions():
        takes = inspect.signature(getattr(math, name)).parameters
        if "approx" in takes:
            assert ptx(name) == ptx(name, approx=name in FAST_UNLESS_SAID), name
            assert ptx(name) != ptx(name, approx=name not in FAST_UNLESS_SAID), name
        for approx in ([{"approx": True}, {"approx": False}] if "approx" in takes else [{}]) if "ftz" in takes else []:
            by_series = name in BY_SERIES and not approx["approx"]
            flushed = [".ftz" in ptx(name, ftz=ftz, **approx) for ftz in (None, False)]
            assert flushed == [name == "reciprocal" and approx["approx"], False], (name, approx)
            if by_series:
                assert refused(name, f32, ftz=True, **approx)[0].startswith("call.no-effect: ftz=True has no effect")
            else:
                assert ".ftz" in ptx(name, ftz=True, **approx), (name, approx)


@pytest.mark.parametrize("name", functions())
def test_a_type_that_it_has_not(name: str) -> None:
    fast: list[dict[str, Any]] = [{"approx": True}, {"approx": False}]
    takes = inspect.signature(getattr(KernelBuilder("all", "sm_90a", threads=32).math, name)).parameters
    missing = [
        e4m3,
        *([] if name in OF_INTEGERS else [s32, s64]),
        *([] if name in OF_F64 else [f64]),
    ]
    for options in [{}, *(fast if "approx" in takes else [])]:
        for element in missing:
            assert refused(name, element, **options) == [
                f"value.operation: k.math.{name} is not defined for {element}"
            ], options
        assert refused(name, f32, **options) == []


@pytest.mark.parametrize("operation", ["min", "max"])
@pytest.mark.parametrize(
    ("given", "argument"), [({"nan": True}, "nan=True"), ({"ftz": True}, "ftz=True"), ({"ftz": False}, "ftz=False")]
)
def test_of_integers_the_argument_that_was_given_has_no_effect(operation, given, argument):
    k = KernelBuilder("integers", "sm_90a", threads=32)
    with pytest.raises(nvb.DiagnosticError) as caught:
        getattr(k.math, operation)(k.thread_id(), 3, **given)
    assert [each.message for each in caught.value.diagnostics] == [
        f"{argument} has no effect on k.math.{operation} of s32: integers have neither NaN nor subnormal numbers"
    ]


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("element", [nvb.f16, nvb.bf16, f32])
def test_nan_of_the_machine_where_the_chip_has_no_such_form(name: str, element: nvb.ElementType) -> None:
    k = KernelBuilder("refused", "sm_75", threads=32, parameters=[Parameter("x", nvb.Pointer(element))])
    x = k.arguments[0]
    with pytest.raises(nvb.DiagnosticError) as caught:
        getattr(k.math, name)(x[0], x[1], nan=True)
    (refused,) = caught.value.diagnostics
    assert refused.rule_id == "target.feature"
    assert refused.message == f"{name}.NaN.{element} needs SM_80, which sm_75 does not have"
