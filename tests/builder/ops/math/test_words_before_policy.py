"""What a call says for itself goes before the kernel's policy, and the policy is what a call would say: the same PTX.

Every function of `k.math` that can be approximated or flush, of each type that it takes.
"""

from __future__ import annotations

import inspect
import re

import pytest

import nvbackend as nvb
from nvbackend import ElementType, bf16, f16, f32, f64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer

OPERANDS = {
    name: sum(each.default is each.empty for each in inspect.signature(call).parameters.values()) - 1
    for name, call in inspect.getmembers(type(KernelBuilder("k", "sm_90a", threads=32).math), inspect.isfunction)
    if not name.startswith("_") and {"approx", "ftz"} & inspect.signature(call).parameters.keys()
}
"""How many numbers each function takes."""


def takes(word: str, *but: str) -> list[str]:
    functions = type(KernelBuilder("k", "sm_90a", threads=32).math)
    return [name for name in OPERANDS if word in inspect.signature(getattr(functions, name)).parameters.keys() - {*but}]


def ptx(names: list[str], element: ElementType, policy: dict[str, bool], **said: bool) -> str:
    """A kernel that stores what each function gives, without the lines that it was made at."""
    parameters = [Parameter("x", Pointer(element)), Parameter("out", Pointer(element))]
    k = KernelBuilder("words", "sm_90a", threads=32, parameters=parameters, math=nvb.MathPolicy(**policy))
    x, out = k.arguments
    for place, name in enumerate(names):
        out[place] = getattr(k.math, name)(*(x[index] for index in range(OPERANDS[name])), **said)
    return re.sub(r"\n\s*(\.loc|\.file|\$L).*", "", k.finish(check=False).compile(assemble=False).ptx)


def test_the_functions_are_those_of_the_policy() -> None:
    assert {"divide", "sqrt", "exp", "pow", "tanh", "gelu", "rsqrt"} <= {*takes("approx")}
    assert {"add", "fma", "max", "exp2"} <= {*takes("ftz")}


@pytest.mark.parametrize("element", [f16, bf16, f32, f64], ids=str)
def test_accuracy_that_a_call_asks_for_is_had(element: ElementType) -> None:
    names = takes("approx")
    assert ptx(names, element, {"approx": True}, approx=False) == ptx(names, element, {}, approx=False)


@pytest.mark.parametrize(("element", "own"), [(f32, ()), (f16, ("exp2", "tanh")), (bf16, ("exp2", "tanh"))], ids=str)
def test_a_policy_approximates_what_a_call_would(element: ElementType, own: tuple[str, ...]) -> None:
    """But for those that f16 and bf16 have an instruction of their own for, which only a call asks for."""
    names = [name for name in takes("approx") if name not in own]
    assert ptx(names, element, {"approx": True}) == ptx(names, element, {}, approx=True)


def test_a_policy_approximates_nothing_of_f64() -> None:
    names = takes("approx")
    assert ptx(names, f64, {"approx": True}) == ptx(names, f64, {})


@pytest.mark.parametrize("flushes", [False, True])
def test_a_flush_that_a_call_asks_for_is_had(flushes: bool) -> None:
    """Of operations of one instruction, and of approximations."""
    names = [name for name in takes("ftz") if name not in takes("approx")]
    assert ptx(names, f32, {"ftz": not flushes}, ftz=flushes) == ptx(names, f32, {}, ftz=flushes)
    names = [name for name in takes("ftz") if name in takes("approx")]
    text = ptx(names, f32, {"ftz": not flushes}, ftz=flushes, approx=True)
    assert text == ptx(names, f32, {}, ftz=flushes, approx=True)
    approximated = re.findall(r"\b\w+\.approx\S*", text)
    assert len(approximated) >= len(names)
    assert {".ftz" in each for each in approximated} == {flushes}
