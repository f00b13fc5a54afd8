"""Every keyword of k.math, k.packed and k.convert: two values of it give two programs, or all but one are refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import KernelBuilder, MathPolicy, Parameter, Value, f16, f32, f64, s32, u8
from tests.support.lines import without_places

TARGET = "sm_103a"
"""It has every instruction of these nouns."""
VALUES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("ftz", "approx", "saturate", "relu", "nan"), (False, True)),
    "rounding": ("rn", "rz", "no such"),
    "form": ("erf", "tanh", "no such"),
}
ELEMENTS = {"math": (f32, f16, f64, s32), "packed": (nvb.f16x2, nvb.bf16x2, nvb.f32x2)}
REFUSALS = {"call.no-effect", "instruction.variant", "value.operation"}
PAIRS = ("math", "pack_pair")
"""It names the pair first, as k.packed does."""
POLICIES = (MathPolicy(), MathPolicy(ftz=True, approx=True))
Call = Callable[[KernelBuilder, list[Value]], Any]


def program(call: Call, element: nvb.ElementType, policy: MathPolicy) -> str | None:
    """The LLVM IR of a kernel that stores what `call` gives; None where the call is refused."""
    parameters = [Parameter("x", nvb.Pointer(element)), Parameter("out", nvb.Pointer(u8))]
    k = KernelBuilder("one", TARGET, threads=32, parameters=parameters, math=policy)
    x, out = k.arguments
    values = [x[place] for place in range(4)]
    try:
        made = call(k, values)
    except nvb.DiagnosticError as error:
        if {one.rule_id for one in error.diagnostics} <= REFUSALS:
            return None
        raise
    for place, value in enumerate(made if isinstance(made, list) else [made]):
        out.cast(value.type)[place] = value
    return str(k.finish(check=False).ir)


def calls(noun: str) -> Iterator[tuple[str, list[str]]]:
    """The calls of a noun that take keywords, and those."""
    owner = getattr(KernelBuilder("all", TARGET, threads=32), noun)
    for name in dir(owner):
        if not name.startswith("_"):
            parameters = inspect.signature(getattr(owner, name)).parameters.values()
            if keywords := [one.name for one in parameters if one.kind == one.KEYWORD_ONLY]:
                yield name, keywords


def contexts(keyword: str, keywords: list[str]) -> Iterator[dict[str, Any]]:
    """What else a call may say: nothing, and each value of the other keywords by itself."""
    yield {}
    for other in keywords:
        if other != keyword:
            yield from ({other: value} for value in VALUES[other][:2])


def without_effect(make: Callable[..., str | None], keywords: list[str]) -> list[str]:
    """The arguments that change nothing: pairs of values of which both are accepted and give one program."""
    odd = []
    for keyword in keywords:
        assert keyword in VALUES, f"say in this test which values {keyword} has"
        for context in contexts(keyword, keywords):
            texts = [make(**context, **{keyword: value}) for value in VALUES[keyword]]
            accepted = [text for text in texts if text is not None]
            if len(set(accepted)) < len(accepted):
                odd.append(f"{keyword} with {context}")
            if "no such" in VALUES[keyword] and texts[-1] is not None:
                odd.append(f"{keyword}='no such' with {context} is accepted")
    return odd


@pytest.mark.parametrize("policy", POLICIES, ids=("no policy", "ftz and approx"))
@pytest.mark.parametrize(("noun", "name", "keywords"), [(n, *c) for n in ELEMENTS for c in calls(n)])
def test_no_keyword_is_without_effect(noun: str, name: str, keywords: list[str], policy: MathPolicy) -> None:
    function = getattr(getattr(KernelBuilder("all", TARGET, threads=32), noun), name)
    count = [one.kind for one in inspect.signature(function).parameters.values()].count(
        inspect.Parameter.POSITIONAL_OR_KEYWORD
    )
    for element in ELEMENTS[noun]:
        if element is not f32 and (noun, name) == PAIRS:
            continue
        if element in (f64, s32) and (policy.ftz or not has(name, element)):
            continue

        @cache
        def make(element: nvb.ElementType = element, **how: Any) -> str | None:
            def call(k: KernelBuilder, values: list[Value]) -> Value:
                pair = str(element) if noun == "packed" else "f16x2" if (noun, name) == PAIRS else None
                named = values[:count] if pair is None else [pair, *values[: count - 1]]
                return getattr(getattr(k, noun), name)(*named, **how)  # type: ignore[no-any-return]

            return program(call, element, policy)

        assert without_effect(make, keywords) == [], (name, element)


def has(name: str, element: nvb.ElementType) -> bool:
    """Whether a function is of this type at all."""
    k = KernelBuilder("one", TARGET, threads=32, parameters=[Parameter("x", nvb.Pointer(element))])
    function = getattr(k.math, name)
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    try:
        function(*[k.arguments[0][0]] * kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD))
    except nvb.DiagnosticError as error:
        return "value.operation" not in [one.rule_id for one in error.diagnostics]
    return True


NARROW = {"e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2"}
"""Their conversions saturate always, as the docstrings of k.convert say (PTX ISA 9.7.9: .satfinite is mandatory)."""
CONVERSIONS: dict[str, tuple[list[str], Call]] = {
    **{
        f"single {to}": (
            ["rounding", "saturate", "relu"],
            lambda k, values, to=to, **how: k.convert.single(values[0], getattr(nvb, to), **how),
        )
        for to in ("f16", "bf16", "tf32")
    },
    **{
        f"pack {to}": (
            ["rounding", "relu", *([] if to in NARROW else ["saturate"])],
            lambda k, values, to=to, **how: k.convert.pack(to, *values[:2], **how),
        )
        for to in ("f16x2", "bf16x2", "ue8m0x2", *sorted(NARROW))
    },
    **{
        f"pair {source} {to}": (
            ["rounding", "relu", *([] if to in NARROW else ["saturate"])],
            lambda k, values, source=source, to=to, register=register, **how: k.convert.pair(
                values[0].bitcast(nvb.u32).to(register), source, to, **how
            ),
        )
        for source, to, register in (
            ("e4m3x2", "f16x2", nvb.u16),
            ("f16x2", "e5m2x2", nvb.u32),
            ("bf16x2", "ue8m0x2", nvb.u32),
            ("ue8m0x2", "bf16x2", nvb.u16),
        )
    },
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_no_keyword_of_a_conversion_is_without_effect(name: str) -> None:
    keywords, conversion = CONVERSIONS[name]

    @cache
    def make(**how: Any) -> str | None:
        return program(lambda k, values: conversion(k, values, **how), f32, POLICIES[0])

    assert without_effect(make, keywords) == []


def ptx(call: Call, policy: MathPolicy, element: nvb.ElementType = f32) -> str:
    parameters = [Parameter("x", nvb.Pointer(element))]
    k = KernelBuilder("one", TARGET, threads=32, parameters=parameters, math=policy)
    x = k.arguments[0]
    x[0] = call(k, [x[place] for place in range(4)])
    return str(k.finish().compile(assemble=False).ptx)


@pytest.mark.parametrize(
    ("call", "instruction"),
    [
        (lambda k, x: k.math.divide(x[0], x[1], rounding="rz"), "div.rz.f32"),
        (lambda k, x: k.math.sqrt(x[0], rounding="rp"), "sqrt.rp.f32"),
        (lambda k, x: k.math.reciprocal(x[0], rounding="rm"), "rcp.rm.f32"),
    ],
)
def test_a_rounding_goes_before_the_policy_and_before_the_usual_approximation(call: Call, instruction: str) -> None:
    for policy in (MathPolicy(), MathPolicy(approx=True)):
        text = ptx(call, policy)
        assert instruction in text
        assert "approx" not in text


def test_the_form_of_a_gelu_goes_before_the_policy() -> None:
    def gelu(k: KernelBuilder, x: list[Value], **how: Any) -> Value:
        return k.math.gelu(x[0], **how)

    quick = MathPolicy(approx=True)
    assert "approx" not in ptx(lambda k, x: gelu(k, x, form="erf"), quick)
    assert "approx" in ptx(lambda k, x: gelu(k, x, form="tanh"), quick)
    chosen = ptx(lambda k, x: gelu(k, x, form="tanh"), quick)
    assert without_places(ptx(gelu, quick)) == without_places(chosen)


def test_a_policy_that_flushes_reaches_pairs_of_f32_and_no_others() -> None:
    def call(k: KernelBuilder, x: list[Value]) -> Value:
        return k.packed.fma(str(x[0].type), x[0], x[1], x[2])

    flush = MathPolicy(ftz=True)
    assert "fma.rn.ftz.f32x2" in ptx(call, flush, nvb.f32x2)
    assert "fma.rn.f32x2" in ptx(call, MathPolicy(), nvb.f32x2)
    assert "fma.rn.f16x2" in ptx(call, flush, nvb.f16x2)


COLLECTIVES: dict[str, Call] = {
    "nan of a sum": lambda k, x: k.warp.reduce("add", x[0], nan=True),
    "nan of a product": lambda k, x: k.warp.scan("mul", x[0], nan=True),
    "nan of a function": lambda k, x: k.cta.reduce(lambda a, b: a + b, x[0], nan=True),
    "nan of integers": lambda k, x: k.cta.scan("max", x[0].to(s32), nan=True).to(f32),
    "nan of a cluster's sum": lambda k, x: k.cluster.reduce("add", x[0], nan=True),
    "initial of a warp": lambda k, x: k.warp.scan("add", x[0], initial=1.0),
    "initial of a CTA": lambda k, x: k.cta.scan("add", x[0], initial=1.0),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_an_argument_of_a_collective_that_changes_nothing_is_refused(name: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        ptx(COLLECTIVES[name], POLICIES[0])
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "call.no-effect"
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__
