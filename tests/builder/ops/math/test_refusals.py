"""Each function of k.math with each type that it has not: refused under its own name, at the user's line."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import KernelBuilder, Parameter, e4m3, f32, f64, s32, s64

OTHERS = {"permute_bytes"}
OF_INTEGERS = {"abs", "min", "max"}
OF_F64 = {
    *("abs", "min", "max", "copysign", "floor", "ceil", "trunc", "rint", "add", "sub", "mul", "fma"),
    *("divide", "sqrt", "rsqrt", "reciprocal"),
}
"""Of doubles PTX has these alone (PTX ISA 9.7.3)."""


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
