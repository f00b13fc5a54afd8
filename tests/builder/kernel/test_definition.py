"""The `kernel` decorator: parameters from annotations, build-time constants, and what is refused."""

from __future__ import annotations

from typing import Annotated

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder

MAP = nvb.TensorMap(f16, box=(64, 64))


@nvb.kernel("sm_90a", threads=64, cluster=2, min_ctas=1, max_registers=40)
def sample(k, out: nvb.Pointer(f32, align=4), source: MAP, count: i32, *, repeats=2):
    for index in range(repeats):
        out[index] = count.to(f32)


def test_annotations_become_the_signature():
    signature = sample.build().signature
    assert [(one.name, one.type) for one in signature.parameters] == [
        ("out", nvb.Pointer(f32, align=4)),
        ("source", MAP),
        ("count", nvb.Scalar(i32)),
    ]
    bounds = signature.bounds
    assert (bounds.threads, bounds.cluster, bounds.min_ctas) == (64, 2, 1)


def test_annotations_in_quotes_are_the_same():
    """This file has them as text already."""

    @nvb.kernel("sm_90a", threads=64)
    def quoted(k, out: nvb.Pointer(f32, align=4), source: MAP, count: i32):
        out[0] = count.to(f32)

    assert quoted.build().signature.parameters == sample.build().signature.parameters


def test_keyword_only_parameters_are_constants_of_the_build():
    stores = [sample.build(repeats=repeats).ir.count("store float") for repeats in (2, 5)]
    assert stores == [2, 5]
    assert sample.compile(constants={"repeats": 3}, assemble=False).ir.count("store float") == 3


def test_attributes_of_the_kernel_reach_the_ptx():
    ptx = sample.compile(assemble=False).ptx
    for text in (
        ".maxntid 64",
        ".minnctapersm 1",
        ".maxnreg 40",
        ".reqnctapercluster 2",
        ".param .align 64 .b8 sample_param_1[128]",
    ):
        assert text in ptx


def test_the_same_program_gives_the_same_text():
    assert sample.build().ir == sample.build().ir


def test_a_wrong_annotation_is_named():
    @nvb.kernel("sm_90a", threads=32)
    def broken(k, n: int):
        pass

    with pytest.raises(nvb.DiagnosticError) as caught:
        broken.build()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "kernel.parameter"
    assert "'n'" in diagnostic.message and "nvb.Pointer" in diagnostic.fix


def test_an_annotation_that_names_a_local_variable():
    """Texts of annotations (PEP 563) do not keep the names of the function around them, which its body does."""
    local = nvb.TensorMap(f16, box=(64, 32))

    @nvb.kernel("sm_90a", threads=32)
    def unseen(k, n: i32, source: local):
        pass

    @nvb.kernel("sm_90a", threads=32)
    def seen(k, n: i32, source: local):
        assert local.box == (64, 32)

    with pytest.raises(nvb.DiagnosticError) as caught:
        unseen.build()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "kernel.parameter"
    assert diagnostic.message == (
        "parameter 'source' of kernel unseen has the annotation 'local', a text in which the name local is not known"
    )
    assert diagnostic.fix.startswith("define or import local at the top of the file;")
    assert "remove `from __future__ import annotations`" in diagnostic.fix
    assert [one.type for one in seen.build().signature.parameters] == [nvb.Scalar(i32), local]


def test_an_unknown_target_is_refused_where_it_is_written():
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.kernel("sm_91a", threads=32)
    assert caught.value.diagnostics[0].rule_id == "target.unknown"
    assert caught.value.diagnostics[0].location.file == __file__


def test_a_name_that_ptx_does_not_take_is_refused():
    with pytest.raises(nvb.DiagnosticError) as caught:
        KernelBuilder("my kernel", "sm_90a", threads=32)
    assert caught.value.diagnostics[0].rule_id == "kernel.name"
    KernelBuilder(caught.value.diagnostics[0].values["suggested"], "sm_90a", threads=32)


def test_bounds_are_checked_together():
    with pytest.raises(nvb.DiagnosticError) as caught:
        KernelBuilder("bounds", "sm_90a", threads=100, cluster=17)
    assert [one.rule_id for one in caught.value.diagnostics] == ["kernel.bounds", "cluster.size"]


def no_builder():
    pass


def starred(k, *values):
    pass


def keywords(k, **constants):
    pass


def generator(k):
    yield


async def coroutine(k):
    pass


@pytest.mark.parametrize(
    "function",
    [no_builder, starred, keywords, generator, coroutine, "text"],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_function_that_builds_nothing_is_refused_where_it_is_decorated(function):
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.kernel("sm_90a", threads=32)(function)
    assert caught.value.diagnostics[0].rule_id == "kernel.function"
    assert caught.value.diagnostics[0].location.file == __file__


def test_a_parameter_of_the_kernel_has_no_default():
    def scaled(k, out: nvb.Pointer[f32], n: i32 = 4, *, rows: int = 8):
        pass

    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.kernel("sm_90a", threads=32)(scaled)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "kernel.function"
    assert "n is a parameter of the kernel, and its default would never be used" in found.message
    assert found.fix == "give it at each launch; write a constant of the build after a *"


def test_constants_are_checked_by_name():
    with pytest.raises(nvb.DiagnosticError, match="its constants are: repeats"):
        sample.build(repeat=3)

    @nvb.kernel("sm_90a", threads=32)
    def needy(k, *, depth):
        pass

    with pytest.raises(nvb.DiagnosticError, match="'depth' has no default"):
        needy.build()
    needy.build(depth=1)


def test_an_annotation_that_is_no_expression_is_named():
    @nvb.kernel("sm_90a", threads=32)
    def broken(k, n: "not an expression"):  # noqa: F722
        pass

    with pytest.raises(nvb.DiagnosticError, match="not an expression"):
        broken.build()


EXECUTED = """
import nvbackend as nvb
from nvbackend import f32, i32

@nvb.kernel("sm_80", threads=32)
def add(k, x: nvb.Pointer[f32], n: "i32"):
    x[n] = x[n] + 1.0
    if wrong:
        k.const(2**40, i32)

found = add.compile(assemble=False).ptx
"""


@pytest.mark.parametrize("names", [{}, {"__name__": None}, {"__name__": 5}, {"__name__": ""}], ids=str)
def test_a_kernel_of_exec_needs_no_module_name(names):
    """exec gives its program the globals that it is given, and no more than the builtins beside them."""
    program = compile(EXECUTED, "<string>", "exec", dont_inherit=True)
    right = {**names, "wrong": False}
    exec(program, right)
    assert ".entry add(" in right["found"]
    with pytest.raises(nvb.DiagnosticError) as caught:
        exec(program, {**names, "wrong": True})
    (found,) = caught.value.diagnostics
    assert (found.rule_id, found.location.file, found.location.line) == ("value.constant", "<string>", 9)


@pytest.mark.parametrize(
    "annotation",
    [
        int,
        Annotated[nvb.Value, "a note"],
        Annotated[nvb.Address, nvb.Pointer(f32), nvb.Pointer(f16)],
        Annotated[nvb.Value, i32, nvb.Scalar(f32), "a note"],
    ],
    ids=str,
)
def test_a_parameter_has_one_type_and_no_more(annotation):
    def wrong(k, x):
        pass

    wrong.__annotations__["x"] = annotation
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.kernel("sm_90a", threads=32)(wrong).build()
    assert [one.rule_id for one in caught.value.diagnostics] == ["kernel.parameter"]


def test_notes_beside_the_type_are_nothing():
    def noted(k, x):
        x[0] = 1.0

    noted.__annotations__["x"] = Annotated[nvb.Address, "a note", nvb.Pointer(f32), 7]
    assert nvb.kernel("sm_90a", threads=32)(noted).build().signature.parameters[0].type == nvb.Pointer(f32)
