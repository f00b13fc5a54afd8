"""What a kernel is declared with, wrong in every way that would end the process, or be found by LLVM or ptxas only."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import e2m1, f16, f32, i32, i64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap
from tests.support.ptxas import assemble
from tests.support.said import said


def declared(*parameters: object, name: str = "declared", **bounds: object) -> KernelBuilder:
    facts = {"threads": 128, **bounds}
    return KernelBuilder(name, "sm_90a", parameters=parameters, **facts)


def rules_of(caught: pytest.ExceptionInfo[nvb.DiagnosticError]) -> list[str]:
    assert all(one.location is not None and one.location.file == __file__ for one in caught.value.diagnostics)
    return [one.rule_id for one in caught.value.diagnostics]


@pytest.mark.parametrize("min_ctas", [None, 1, 2])
@pytest.mark.parametrize("max_registers", [None, 40, 200])
def test_the_registers_that_were_asked_for_are_in_the_machine_form(min_ctas, max_registers):
    """Of 64 Ki registers 256 threads have 256 each, two CTAs of them 128 each; an instruction names 255 at most."""
    k = KernelBuilder("k", "sm_90a", threads=256, min_ctas=min_ctas, max_registers=max_registers)
    expected = None
    if min_ctas or max_registers:
        expected = min(max_registers or 255, 65536 // 256 // (min_ctas or 1), 255)
    assert k.machine.attributes.get("registers") == expected


@pytest.mark.parametrize("name", ["threads", "cluster", "min_ctas", "max_registers"])
@pytest.mark.parametrize("given", [1.0, True, "2", (1, 1.5), None])
def test_bounds_are_integers(name: str, given: object) -> None:
    """LLVM ends the process on `"nvvm.maxntid"="128.0"`."""
    if given is None and name in ("min_ctas", "max_registers"):
        declared(**{name: None})
        return
    with pytest.raises(nvb.DiagnosticError, match=name) as caught:
        declared(**{name: given})
    is_count = name in ("min_ctas", "max_registers")
    assert rules_of(caught) == ["call.argument" if is_count and isinstance(given, (bool, tuple)) else "kernel.bounds"]


def test_all_bounds_that_are_wrong_are_told_together() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        declared(threads=100, cluster=99, min_ctas=0, max_registers=8)
    assert rules_of(caught) == ["kernel.bounds", "cluster.size", "kernel.bounds", "kernel.bounds"]


@pytest.mark.parametrize(("cluster", "said"), [(1, []), (8, []), (9, [9]), (16, [16])])
def test_a_cluster_that_some_chips_launch_only_is_a_warning_of_the_finished_kernel(
    cluster: int, said: list[int]
) -> None:
    found = declared(cluster=cluster).finish().diagnostics
    assert [(one.rule_id, one.severity) for one in found] == [("cluster.portable-size", nvb.Severity.WARNING)] * len(
        said
    )
    assert all(f"{cluster} CTAs" in one.message and one.location.file == __file__ for one in found)


def test_the_warning_stands_with_the_errors_of_the_kernel() -> None:
    k = declared(cluster=16)
    k.wgmma.accumulator(64).values()[0] + 1.0
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.finish()
    assert rules_of(caught) == ["cluster.portable-size", "wgmma.unwritten"]


def test_somebody_elses_function_hears_of_its_cluster_too() -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "own")
    builder = ir.IRBuilder(function.append_basic_block())
    k = nvb.attach(builder, "sm_90a", threads=128, cluster=16)
    builder.ret_void()
    assert [one.rule_id for one in k.verify()] == ["cluster.portable-size"]


ASSERTED = {
    "minimum": (i32(minimum=5), lambda n: n >= 5),
    "maximum": (i32(maximum=-5), lambda n: n <= -5),
    "both": (i32(minimum=5, maximum=9), lambda n: (n >= 5) & (n <= 9)),
    "multiple": (i32(multiple_of=8), lambda n: (n & 7) == 0),
    "first multiple": (i32(minimum=5, multiple_of=8), lambda n: n >= 8),
    "last multiple": (i32(maximum=23, multiple_of=8), lambda n: n <= 16),
}


@pytest.mark.parametrize("what", ASSERTED)
def test_llvm_compiles_for_what_is_asserted_of_a_parameter(what: str) -> None:
    """The condition takes no instruction where it is asserted, and one at least where it is not."""
    kind, holds = ASSERTED[what]
    for stated, needed in ((kind, False), (i32, True)):
        k = KernelBuilder("k", "sm_80", threads=32, parameters=[Parameter("o", Pointer(i32)), Parameter("n", stated)])
        out, n = k.arguments
        out[0] = k.select(holds(n), k.const(1, i32), k.const(0, i32))
        ptx = k.finish(check=False).compile(assemble=False).ptx
        assert bool(re.search(r"ld\.param\.\w(8|16|32)\b", ptx)) is needed


@pytest.mark.parametrize("align", [0, 1, 2, 3, 4, 6, 128, 129, 1 << 32, 1 << 33, -1, -4])
def test_any_power_of_two_is_an_alignment(align: int) -> None:
    """Those of LLVM: 2^0 to 2^32."""
    legal = [1 << power for power in range(33)]
    caught = []
    try:
        declared(Parameter("a", Pointer(i32, align=align)))
    except nvb.DiagnosticError as error:
        caught = [one.rule_id for one in error.diagnostics]
    assert caught == ([] if align in legal else ["pointer.align"])


@pytest.mark.parametrize(
    ("parameter", "rule", "says"),
    [
        (("a", i32), "kernel.parameter", "is not an nvb.Parameter"),
        (Parameter("a", Pointer(i32, space="shared")), "kernel.parameter-fact", "addresses of global memory"),
        (Parameter("a", TensorMap(e2m1, box=(64, 512), swizzle=0)), "kernel.parameter-fact", "1 to 256"),
    ],
)
def test_what_is_no_parameter(parameter: object, rule: str, says: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        declared(parameter)
    assert rules_of(caught) == [rule]
    assert says in said(*caught.value.diagnostics)


@pytest.mark.parametrize(
    ("make", "rule", "says"),
    [
        (
            lambda: Parameter("a", int),
            "call.argument",
            "type must be ParameterType | ElementType, not <class",
        ),
        (lambda: Scalar("f16"), "call.argument", "Scalar: element must be ElementType, not 'f16' (a str)"),
        (lambda: Pointer(i32, align=3), "pointer.align", "align=3"),
        (lambda: Pointer(i32, align=0), "pointer.align", "power of two"),
        (lambda: TensorMap(f16, box=(0, 64)), "tensor-map.box", "1 to 256"),
        (lambda: TensorMap(f16, box=(512, 64)), "tensor-map.box", "1 to 256"),
        (lambda: TensorMap(f16, box=(1,) * 6), "tensor-map.box-rank", "1 to 5"),
        (lambda: TensorMap(f16, box=64), "call.argument", "box must be tuple[int, ...], not 64 (an int)"),
        (lambda: TensorMap(f16, box=(64, "64")), "call.argument", "box[1] must be int, not '64' (a str)"),
        (lambda: TensorMap(f16, (64, 64), swizzle="128"), "call.argument", "swizzle must be int, not '128' (a str)"),
        (lambda: TensorMap(f16, (64, 64), swizzle=nvb.SwizzleMode.B128), "call.argument", "swizzle must be int, not"),
        (lambda: TensorMap(f16, (64, 64), swizzle=100), "tensor-map.swizzle-bytes", "0, 32, 64 or 128 bytes"),
    ],
)
def test_what_no_parameter_can_be_made_of(make: Callable[[], object], rule: str, says: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        make()
    assert rules_of(caught) == [rule]
    assert says in said(*caught.value.diagnostics)


def test_a_box_may_be_a_list() -> None:
    assert TensorMap(f16, box=[64, 64]) == TensorMap(f16, box=(64, 64))


@pytest.mark.parametrize("name", ["vprintf", "malloc", "free", "__assertfail", "__cudaLaunch", "__nvvm_reflect"])
def test_names_that_cuda_gives_a_meaning(name: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        declared(name=name)
    assert rules_of(caught) == ["kernel.reserved-name"]
    declared(name=str(caught.value.diagnostics[0].values["suggested"])).finish()


@pytest.mark.parametrize("name", ["vprintf_", "mallocs", "free2", "param0", "cuda"])
def test_names_that_resemble_those_of_cuda(name: str) -> None:
    assert declared(name=name).finish().signature.name == name


@pytest.mark.parametrize("name", ["WARP_SZ", "4x", "", None, "a.b", "größe", "_", "$", "%x"])
def test_names_that_ptx_does_not_take(name: object) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        declared(name=name)
    assert rules_of(caught) == ["kernel.name"]
    suggested = caught.value.diagnostics[0].values["suggested"]
    declared(name=str(suggested)).finish()


@pytest.mark.parametrize("name", ["_gemm", "__gemm", "_1", "$a", "_$", "a$b"])
def test_names_that_llvm_and_ptxas_take_as_they_are(name: str) -> None:
    compiled = declared(Parameter("x", Scalar(i32)), name=name).compile(cache=nvb.Cache.disabled())
    assert f".entry {name}(" in compiled.ptx
    assert compiled.cubin


@pytest.mark.parametrize("names", [("a", "A"), ("größe", 'quo"te'), (" ", "."), ("ret", "%x")])
def test_parameters_may_be_called_anything(names: tuple[str, str]) -> None:
    """A tensor map is passed by value whatever its name is: the third parameter begins behind its 128 bytes."""
    k = declared(
        Parameter(names[0], Scalar(i64)), Parameter(names[1], TensorMap(f16, (64, 64))), Parameter("last", Scalar(i32))
    )
    k.tma.prefetch_maps(k.arguments[1])
    k.shared_static(i32, 1)[0] = k.arguments[2]
    ptx = k.compile(assemble=False, cache=nvb.Cache.disabled()).ptx
    assert ".align 64 .b8 declared_param_1[128]" in ptx


def test_a_parameter_has_a_name() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        declared(Parameter("x", Scalar(i32)), Parameter("", Scalar(i32)))
    assert rules_of(caught) == ["value.name"]


def test_the_parameters_fit_into_the_parameter_space() -> None:
    """The limit is ptxas's own: as many maps as pass here assemble, and one more does not pass."""
    maps = [Parameter(f"m{index}", TensorMap(f16, (64, 64))) for index in range(256)]
    most = declared(*maps[:255]).compile(assemble=False, cache=nvb.Cache.disabled()).ptx
    assert assemble(most, "sm_90a")[0]
    assert "too much parameter space" in assemble(most.replace("_param_0[128]", "_param_0[256]"), "sm_90a")[1]
    with pytest.raises(nvb.DiagnosticError, match="32768") as caught:
        declared(*maps)
    assert rules_of(caught) == ["kernel.parameter-fact"]


def test_attaching_needs_a_place() -> None:
    for place in (None, ir.IRBuilder(), "entry"):
        with pytest.raises(nvb.DiagnosticError) as caught:
            nvb.attach(place, "sm_90a", threads=128)
        assert rules_of(caught) == ["attach.place"]


def test_attaching_checks_bounds_and_the_types_of_values() -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(32)]), "attached")
    place = ir.IRBuilder(function.append_basic_block("entry"))
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.attach(place, "sm_90a", threads=100)
    assert rules_of(caught) == ["kernel.bounds"]
    k = nvb.attach(place, "sm_90a", threads=128)
    with pytest.raises(nvb.DiagnosticError, match="type i32 is not of type f32") as caught:
        k.value(function.args[0], f32)
    assert rules_of(caught) == ["value.llvm-type"]
    assert k.value(function.args[0], i32).type is i32
