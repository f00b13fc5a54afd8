"""Arguments and results of device functions: advice that is about the argument and works, and types of results."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32, i32
from nvbackend.builder.functions.parameters import declared


def built(body, **options):
    @nvb.kernel("sm_90a", threads=128, **options)
    def kernel(k, out: nvb.Pointer[f32], n: i32):
        body(k, out, n)

    return kernel.build()


@nvb.function
def doubled(k, x: f32) -> f32:
    return x * 2.0


@nvb.function(inline=False)
def put(k, p: nvb.Pointer[f32]):
    p[0] = 1.0


@nvb.function(inline=False)
def put_shared(k, p: nvb.Pointer(f32, space="shared")):
    p[0] = 1.0


@nvb.function(inline=False)
def read(k, p: nvb.Pointer(f32, const=True)) -> f32:
    return p[0]


@nvb.function(inline=False)
def read_any(k, p: nvb.Pointer(f32, const=False)) -> f32:
    return p[0]


@nvb.function
def chosen(k, condition: nvb.pred) -> f32:
    return k.select(condition, 1.0, 2.0)


@nvb.function
def of_fours(k, x: i32(multiple_of=4)) -> i32:
    return x


def no_annotation(k, x):
    pass


def unknown_name(k, x: NoSuchType):  # noqa: F821 (the name is what is missing)
    pass


def odd_space(k, x: nvb.Pointer(f32, space="local")):
    pass


def of_four_bits(k, x: nvb.u4):
    pass


def of_eight_bits(k, x: nvb.e4m3):
    pass


def a_map(k, x: nvb.TensorMap(nvb.f16, box=(64, 64))):
    pass


def a_python_float(k, x: float):
    pass


def a_text(k, x: str):
    pass


def no_builder(x: f32):
    pass


DECLARATIONS = {
    no_annotation: (
        "parameter x has no annotation",
        "annotate it with an element type (nvb.f32), nvb.Pointer[element]",
    ),
    unknown_name: ("in which the name NoSuchType is not known", "define or import NoSuchType at the top"),
    odd_space: ("parameter x is declared space='local'", 'use space="global" or space="shared"'),
    of_four_bits: ("parameter x is a u4, less than a byte", "pass packed values in an integer: nvb.u32"),
    a_map: ("which a called function cannot take", ", or pass an element type (nvb.f32)"),
    a_python_float: ("has the annotation <class 'float'>, which is not a type of a kernel", "write nvb.f32"),
    a_text: ("has the annotation <class 'str'>, which is not a type of a kernel", "write an element type (nvb.f32)"),
    no_builder: ("its first parameter, x, gets the builder", "write def no_builder(k, x, ...)"),
}


@pytest.mark.parametrize("function", DECLARATIONS, ids=lambda function: function.__name__)
def test_what_is_wrong_with_a_declaration_and_what_to_write(function) -> None:
    message, fix = DECLARATIONS[function]
    with pytest.raises(DiagnosticError) as caught:
        declared(function, function.__name__, inline=False)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "function.declaration"
    assert message in found.message
    assert fix in found.fix


def test_what_may_be_declared() -> None:
    assert declared(of_eight_bits, "f", inline=False).parameters["x"].element is nvb.e4m3
    assert declared(a_map, "f", inline=True).parameters["x"].box == (64, 64)


def of_a_peer(k):
    return k.cluster.map_shared_rank(k.shared(f32, 4), 1)


def passes_what_a_peer_has(k, out, n):
    there = of_a_peer(k)
    k.cluster.sync()
    doubled(k, there[0])
    k.cluster.sync()


ADVICE = {
    "shared memory": (
        lambda k, out, n: put(k, k.shared(f32, 4)),
        'declare it nvb.Pointer(f32, space="shared"), or pass memory of space global',
        lambda k, out, n: put_shared(k, k.shared(f32, 4)),
    ),
    "global memory": (
        lambda k, out, n: put_shared(k, out),
        'declare it nvb.Pointer(f32, space="global"), or pass memory of space shared',
        lambda k, out, n: put(k, out),
    ),
    "a peer's memory": (
        lambda k, out, n: put_shared(k, of_a_peer(k)),
        "load what another CTA has, and pass the values",
        passes_what_a_peer_has,
    ),
    "another element": (
        lambda k, out, n: put(k, out.cast(i32)),
        "see it as another type: p.cast(nvb.f32)",
        lambda k, out, n: put(k, out.cast(i32).cast(nvb.f32)),
    ),
    "not const": (
        lambda k, out, n: read(k, out),
        "declare the parameter nvb.Pointer(f32, const=False)",
        lambda k, out, n: read_any(k, out),
    ),
    "an element": (
        lambda k, out, n: doubled(k, out),
        "pass an element of it: p[0]; or declare nvb.Pointer",
        lambda k, out, n: doubled(k, out[0]),
    ),
    "another type": (
        lambda k, out, n: doubled(k, n),
        "convert it: .to(nvb.f32)",
        lambda k, out, n: doubled(k, n.to(nvb.f32)),
    ),
    "a number as a condition": (
        lambda k, out, n: chosen(k, n),
        "compare it with 0: x != 0",
        lambda k, out, n: chosen(k, n != 0),
    ),
    "a number that is asserted not to come": (
        lambda k, out, n: of_fours(k, 6),
        "pass such a number",
        lambda k, out, n: of_fours(k, 8),
    ),
}


@pytest.mark.parametrize("what", ADVICE)
def test_the_advice_on_an_argument_is_about_it_and_works(what) -> None:
    wrong, advice, right = ADVICE[what]
    with pytest.raises(DiagnosticError) as caught:
        built(wrong, cluster=2)
    (fault,) = caught.value.diagnostics
    assert (fault.rule_id, fault.fix) == ("function.argument", advice)
    assert built(right, cluster=2).ir


def test_a_map_of_another_box_is_not_taken() -> None:
    taken = nvb.function(a_map)

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, narrow: nvb.TensorMap(nvb.f16, box=(32, 64)), wide: nvb.TensorMap(nvb.f16, box=(64, 64)), *, which):
        taken(k, narrow if which == "narrow" else wide)

    assert kernel.build(which="wide").ir
    with pytest.raises(DiagnosticError) as caught:
        kernel.build(which="narrow")
    (fault,) = caught.value.diagnostics
    assert fault.rule_id == "function.argument"
    assert "box=(64, 64)" in fault.message and "box=(32, 64)" in fault.message
    assert fault.fix == "pass a tensor map of the kernel of this type"


@pytest.mark.parametrize(
    ("kind", "shown"), [(nvb.Address, "an Address"), (nvb.Tensor, "a Tensor"), (nvb.Value, "a Value")]
)
def test_an_object_is_of_the_declared_class(kind, shown) -> None:
    def wants(k, it) -> None:
        pass

    wants.__annotations__["it"] = kind
    with pytest.raises(DiagnosticError) as caught:
        built(lambda k, out, n: nvb.function(wants)(k, 3))
    (fault,) = caught.value.diagnostics
    assert fault.rule_id == "function.argument"
    assert fault.message == f"it of function wants is {shown}, and the call passes 3"
    assert fault.fix == f"pass {shown} of this kernel"


@pytest.mark.parametrize(
    ("kind", "results", "is_tuple"),
    [
        (None, None, False),
        (f32, (f32,), False),
        (tuple[f32], (f32,), True),
        ((f32,), (f32,), True),
        (tuple[f32, i32], (f32, i32), True),
        ((f32, i32), (f32, i32), True),
        ((f32, nvb.pred), (f32, nvb.pred), True),
    ],
)
def test_results_are_spelled_as_one_or_as_a_tuple(kind, results, is_tuple) -> None:
    def body(k):
        pass

    body.__annotations__["return"] = kind
    wanted = declared(body, "body", inline=True)
    assert (wanted.results, wanted.is_tuple) == (results, is_tuple)


@pytest.mark.parametrize("kind", [(), tuple[()], str, (f32, str), nvb.e2m1, (f32, nvb.e2m1), [f32, i32]])
def test_what_is_no_type_of_a_result(kind) -> None:
    def body(k):
        pass

    body.__annotations__["return"] = kind
    with pytest.raises(DiagnosticError, match=r"function\.declaration.*is not a type of values"):
        declared(body, "body", inline=True)
