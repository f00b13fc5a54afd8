"""What people write in their first kernels: each mistake is a diagnostic at their line whose fix leads on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.diagnostics import element_name
from nvbackend.layout import Layout


def _accumulator(k: nvb.KernelBuilder, *, scaled: bool = False) -> Any:
    acc = _mma(k).accumulator()
    return acc.elements() * 2.0 if scaled else acc


def _mma(k: nvb.KernelBuilder) -> Any:
    return k.tiled_mma(nvb.mma.sync("m16n8k16", nvb.f16, nvb.f16, f32), tile=(16, 8))


def _tiles(k: nvb.KernelBuilder, x: Any) -> list[Any]:
    return [k.tensor(x.cast(nvb.f16), Layout((rows, 16), (16, 1))) for rows in (16, 8)]


def _endless(k: nvb.KernelBuilder, n: Any) -> None:
    with k.if_(n > 0):
        _endless(k, n - 1)


INSIDE = [
    (lambda k, x, n: x.shape[0], "value.attribute", "an address of f32 has no .shape", "as parameters"),
    (lambda k, x, n: x[0].atomic("add", 1.0), "value.attribute", "has no .atomic", "(pointer + index).atomic(...)"),
    (lambda k, x, n: k.var(0).astype(f32), "value.attribute", "a variable of the kernel has no .astype", ".to(type)"),
    (lambda k, x, n: k.thread_id().y, "value.attribute", "has no .y", 'k.thread_id("y")'),
    (lambda k, x, n: x.dtype, "value.attribute", "has no .dtype", ".element"),
    (lambda k, x, n: n.nothing, "value.attribute", "has no .nothing", "bitcast, constant"),
    (lambda k, x, n: x[0, 1], "call.argument", "not (0, 1) (a tuple)", "row * pitch + column"),
    (lambda k, x, n: x[0:4], "value.kind", "cannot be used as a run-time value", "pointer.load(4)"),
    (lambda k, x, n: 1.0 / n, "value.constant", "1.0 is not a value of s32", ".to(nvb.f32)"),
    (lambda k, x, n: (n < 3) * 2.0, "value.type", "not pred and float", "k.select"),
    (lambda k, x, n: k.shared(f32, n), "call.argument", "known only when the kernel runs", "a constant of the build"),
    (
        lambda k, x, n: k.shared(f32, (32, 33)),
        "call.argument",
        "count must be int, not (32, 33)",
        "k.tensor(k.shared(element, 1056), Layout((32, 33), (33, 1)))",
    ),
    (lambda k, x, n: x[1] + x.load(), "call.argument", "not [<f32", "take one of its values, results[0]"),
    (lambda k, x, n: x[0] * np.ones(4), "call.argument", "(an ndarray)", "k.constant.array(numbers"),
    (lambda k, x, n: nvb.mma.sync((16, 8, 16), f32, f32, f32), "call.argument", "not (16, 8, 16)", '"m16n8k16"'),
    (lambda k, x, n: k.pipeline(3, 1, (f32, 32)), "call.argument", "too many positional", "name each tile"),
    (lambda k, x, n: k.pipeline(num_stages=3), "call.argument", "'stages'", "k.pipeline(3, 1, a=layout"),
    (
        lambda k, x, n: k.store_accumulator(_accumulator(k).elements(), x, 8),
        "call.argument",
        "(a Tile",
        "values.store(",
    ),
    (lambda k, x, n: k.one_thread(n).__enter__(), "call.argument", "known only when the kernel runs", "k.one_thread("),
    (lambda k, x, n: k.shared("float32", 4), "call.argument", "not 'float32' (a str): use nvb.f32", "k.shared("),
    (lambda k, x, n: k.shared(np.int32, 4), "call.argument", "(a type): use nvb.s32", "k.shared("),
    (lambda k, x, n: x[0].to(float), "call.argument", "(a type): use nvb.f32", "Value.to("),
    (
        lambda k, x, n: k.warp.shuffle("down", x[0], 1),
        "call.argument",
        "value must be a value or a number, not 'down'",
        "mode: str",
    ),
    (lambda k, x, n: k.warp.shuffle(x[0], n, 1), "call.argument", "mode must be str, not <s32", "mode: str"),
    (lambda k, x, n: k.warp.reduce("or", x[0]), "value.operation", "k.warp.reduce by or", ".bitcast"),
    (lambda k, x, n: nvb.mma.sync("m16n8k16", "f16", "f16", "f32"), "call.argument", "use nvb.f16", "nvb.mma.sync("),
    (lambda k, x, n: k.block_dim(), "call.unknown", "k.block_dim", "the threads that the kernel is declared with"),
    (lambda k, x, n: k.grid_dim(), "call.unknown", "k.grid_dim", "k.block_count"),
    (lambda k, x, n: k.elif_(n < 3), "call.unknown", "k.elif_", "k.else_"),
    (lambda k, x, n: n[0], "value.type", "indexed like memory", 'k.packed.unpack("f16x2", x)'),
    (lambda k, x, n: _accumulator(k) * 2.0, "value.number", "'RegisterTensor' and 'float'", "acc.elements() * 2.0"),
    (lambda k, x, n: _endless(k, n), "function.recursion", "_endless -> _endless -> ..., until Python's", "as a loop"),
    (lambda k, x, n: k.var(0.0, "f32"), "call.argument", "not 'f32' (a str): use nvb.f32", "k.var("),
    (
        lambda k, x, n: k.select(x[0], x[0] > 0.0, 1.0),
        "value.type",
        "expected pred, but the value is f32",
        "value != 0",
    ),
    (lambda k, x, n: i32(minimun=3), "call.argument", "unexpected keyword argument 'minimun'", "minimum: int | None"),
    (lambda k, x, n: nvb.wgmma.mma_async("M64N128K16", f32, f32, f32), "mma.shape", "'M64N128K16'", '"m64n128k16"'),
    (lambda k, x, n: nvb.wgmma.mma_async("64x128", f32, f32, f32), "mma.shape", "'64x128'", '"m64n256k16"'),
    (lambda k, x, n: k.pipeline(2, copies="cpasync", a=(f32, 32)), "instruction.variant", "copies='cpasync'", "values"),
    (lambda k, x, n: k.build(), "call.unknown", "k.build does not exist", "use k.finish()"),
    (lambda k, x, n: k.ir, "call.unknown", "k.ir does not exist", "use k.finish().ir"),
    (
        lambda k, x, n: nvb.SmemLayout(nvb.Major.K, 128, f32, 8, 32),
        "call.argument",
        "not 128 (an int): use nvb.SwizzleMode.B128",
        "SmemLayout(",
    ),
    (lambda k, x, n: k.pipeline(2.0, a=(f32, 32)), "call.argument", "k.pipeline: stages must be int, not 2.0", "laid"),
    (lambda k, x, n: k.pipeline(n, a=(f32, 32)), "call.argument", "k.pipeline: stages must be int, not <s32", "laid"),
    (lambda k, x, n: k.math.exp(_accumulator(k)), "value.kind", "cannot be used as a run-time value", ".map(lambda"),
    (lambda k, x, n: max(_accumulator(k).elements(), 0.0), "value.truth", "no truth value", "k.math.max"),
    (lambda k, x, n: bool(_accumulator(k).rows(0.0)), "value.truth", "no truth value", "k.if_"),
    (lambda k, x, n: bool(k.var(_accumulator(k).rows(0.0))), "value.truth", "no truth value", "k.if_"),
    (lambda k, x, n: k.if_(np.bool_(True)), "call.argument", "(a NumPy bool", "k.if_("),
    (lambda k, x, n: x[0].sqrt(), "value.attribute", "has no .sqrt", "call k.math.sqrt(...) with it"),
    (lambda k, x, n: np.exp(x[0]), "value.number", "ufunc", "use k.math.exp: NumPy's functions"),
    (lambda k, x, n: np.arctan(x[0]), "value.number", "ufunc", "k.math.sqrt and the like for math and NumPy"),
    (lambda k, x, n: x.store([1.0, 2.0]), "value.kind", "[1.0, 2.0] cannot be used as", "one by one: store(*values)"),
    (lambda k, x, n: x.store(x), "value.kind", "<global address of f32", "address[index]"),
    (lambda k, x, n: k.var(f32), "value.kind", "f32 cannot be used as", "k.var(0, nvb.f32)"),
    (lambda k, x, n: x.load() * 2.0, "value.type", "load gives a list of values: can't multiply", "address[index]"),
    (lambda k, x, n: x.load(2) + 1.0, "value.type", "load gives a list of values: can only concat", "address.load(2)"),
    (lambda k, x, n: 1.0 - x.load(2), "value.type", "load gives a list of values: unsupported", "address.load(2)"),
    (lambda k, x, n: k.warp.reduce(x[0], "add"), "value.kind", "'add' cannot be used", 'first: reduce("add", value)'),
    (lambda k, x, n: k.print(x[0]), "call.argument", "text must be str", 'k.print("{}", value)'),
    (lambda k, x, n: k.atomic.add(x[0], 1.0), "call.argument", "its address is address + index", "k.atomic.add("),
    (
        lambda k, x, n: k.ptx("neg.f32 {d}, {a}", outputs={"d": f32}, inputs={"a": x[0]}),
        "ptx.syntax",
        "column 17: the end where ';' is expected: neg.f32 {d}, {a}",
        "write ';'",
    ),
    (lambda k, x, n: n in (1, 2), "value.truth", "no truth value", "`(a == b) | (a == c)` instead of a in (b, c)"),
    (
        lambda k, x, n: _mma(k).gemm(_accumulator(k), *_tiles(k, x)),
        "warp-mma.fragment",
        "A of SM80_16x8x16_F32F16F16F32_TN: it is a tile in memory",
        "mma.accumulate(acc, a, b)",
    ),
    (lambda k, x, n: k.tensor(x, Layout((4, 4)))[0, :], "layout-algebra.coordinate", "is not an index", "None takes a"),
    (lambda k, x, n: k.var([0.0, 1.0]), "value.kind", "[0.0, 1.0] cannot be used", "[k.var(x) for x in values]"),
    (lambda k, x, n: Layout("(8,8):(8,1)"), "layout-algebra.extent", "'(8,8):(8,1)' in a shape", "layout.parse"),
    (lambda k, x, n: _accumulator(k).set([0.0]), "tensor.registers", "1 values for 4 elements", "give 4 values"),
    (lambda k, x, n: k.one_thread().__enter__(), "target.feature", "elect.sync needs SM_90", "k.thread_id() == 0"),
    (lambda k, x, n: k.while_(n < 3), "call.unknown", "k.while_", "k.loop with k.break_if"),
]


@pytest.mark.parametrize(("write", "rule", "says", "fix"), INSIDE)
def test_a_mistake_in_the_kernel(write: Callable[..., Any], rule: str, says: str, fix: str) -> None:
    @nvb.kernel("sm_80", threads=32)
    def kernel(k: nvb.KernelBuilder, x: nvb.Pointer[f32], n: i32) -> None:
        write(k, x, n)

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    found = caught.value.diagnostics[0]
    assert found.rule_id == rule
    assert says in found.message
    assert fix in found.fix
    assert found.location is not None
    assert found.location.file == __file__


def test_python_asks_values_for_names_as_ever() -> None:
    @nvb.kernel("sm_80", threads=32)
    def kernel(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        assert not hasattr(x, "shape")
        assert not hasattr(x[0], "__array_interface__")
        assert getattr(k.var(0), "dtype", None) is None

    kernel.build()


@pytest.mark.parametrize("what", [lambda x: x[0], lambda x: x, lambda _: 1.5, lambda _: 0, lambda x: (x[0], 1)])
def test_a_kernel_returns_nothing(what: Any) -> None:
    @nvb.kernel("sm_80", threads=32)
    def kernel(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> Any:
        return what(x)

    with pytest.raises(nvb.DiagnosticError, match=r"kernel\.function.*a kernel has no result") as caught:
        kernel.build()
    assert "out[index] = value" in caught.value.diagnostics[0].fix
    assert caught.value.diagnostics[0].location.source.strip() == "return what(x)"


def test_a_method_has_no_builder() -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"kernel\.function.*it is a method") as caught:

        class Model:
            @nvb.kernel("sm_80", threads=32)
            def kernel(self, k, x: nvb.Pointer[f32]):
                x[0] = 1.0

    assert "def kernel(k, ...) outside of the class" in caught.value.diagnostics[0].fix


@pytest.mark.parametrize("wrong", [nvb.Pointer(f32), ("x", nvb.Pointer(f32))])
def test_a_type_alone_is_no_parameter(wrong: Any) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"kernel\.parameter.* is not an nvb\.Parameter") as caught:
        nvb.KernelBuilder("k", "sm_80", threads=32, parameters=[wrong])
    assert 'nvb.Parameter("x", nvb.Pointer(nvb.f32))' in caught.value.diagnostics[0].fix


def test_a_module_of_llvmlite_is_named_in_one_line() -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"module\.kernels.*: a Module is not a list of kernels"):
        nvb.compile_module(ir.Module("k"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "target"),
    [("H100", "sm_90a"), ("a100", "sm_80"), ("B200", "sm_100a"), ("L40S", "sm_89"), ("Hopper", "sm_90a")],
)
def test_a_chip_has_a_target(name: str, target: str) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"target\.unknown") as caught:
        nvb.Target.parse(name)
    assert caught.value.diagnostics[0].fix.endswith(f"that of {name} is {nvb.Target.parse(target)}")


def test_what_a_kernel_has_later_is_named() -> None:
    @nvb.kernel("sm_80", threads=32)
    def kernel(k, x: nvb.Pointer[f32]):
        x[0] = 1.0

    built, module = kernel.build(), nvb.compile_module([kernel], assemble=None)
    for owner, name, meant in (
        (built, "ptx", "compile it first, kernel.compile().ptx"),
        (kernel, "sass", "compile it first, kernel.compile().sass()"),
        (module["kernel"], "registers", "kernel.figures() has the numbers of its report"),
        (module, "kernel", 'name the kernel, module["kernel"]'),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        assert str(caught.value).endswith(f"has no attribute {name!r}: {meant}")
    for owner in (built, module["kernel"], module):
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
            owner.nothing  # type: ignore[attr-defined]  # noqa: B018
    for name, meant in (("jit", "@nvb.kernel("), ("autotune", "nvb.tune"), ("constexpr", "a keyword-only parameter")):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'; .*{re.escape(meant)}"):
            getattr(nvb, name)


def test_a_kernel_without_its_builder() -> None:
    @nvb.kernel("sm_80", threads=32)
    def kernel(out: nvb.Pointer[f32], n: i32) -> None:
        out[0] = 1.0

    with pytest.raises(nvb.DiagnosticError, match=r"its first parameter, out, gets the builder") as caught:
        kernel.build()
    assert caught.value.diagnostics[0].fix == "write def kernel(k, out, ...)"


def test_counters_of_two_loops_at_once() -> None:
    @nvb.kernel("sm_80", threads=32)
    def kernel(k: nvb.KernelBuilder, out: nvb.Pointer[f32]) -> None:
        with k.range(3), k.range(4) as (i, j):
            out[i] = j.to(f32)

    with pytest.raises(nvb.DiagnosticError, match=r"value\.number.*cannot unpack") as caught:
        kernel.build()
    assert "with k.range(m) as i, k.range(n) as j:" in caught.value.diagnostics[0].fix


@pytest.mark.parametrize(
    ("annotation", "says", "fix"),
    [
        (None, "has no annotation", "an element type (nvb.i32)"),
        (int, "has the annotation <class 'int'>", "annotate it with nvb.s32"),
        (np.float32, "has the annotation <class 'numpy.float32'>", "annotate it with nvb.f32"),
        (str, "has the annotation <class 'str'>", "an element type (nvb.i32)"),
    ],
)
def test_a_parameter_of_another_type(annotation: Any, says: str, fix: str) -> None:
    def kernel(k: nvb.KernelBuilder, x: Any) -> None:
        pass

    kernel.__annotations__["x"] = annotation
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.kernel("sm_80", threads=32)(kernel).build()
    found = caught.value.diagnostics[0]
    assert found.rule_id == "kernel.parameter"
    assert says in found.message
    assert fix in found.fix


@pytest.mark.parametrize(
    ("name", "suggested"),
    [("my kernel", "my_kernel"), ("3d", "k3d"), ("a-b", "a_b"), ("", "k"), ("_x y", "k_x_y"), (None, "kernel")],
)
def test_a_name_is_suggested_that_resembles_the_given(name: Any, suggested: str) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"kernel\.name") as caught:
        nvb.KernelBuilder(name, "sm_80", threads=32)
    assert caught.value.diagnostics[0].fix.endswith(repr(suggested))
    nvb.KernelBuilder(suggested, "sm_80", threads=32)


@pytest.mark.parametrize(
    ("other", "ours"),
    [
        ("float16", "f16"),
        ("bfloat16", "bf16"),
        ("float32", "f32"),
        ("half", "f16"),
        ("double", "f64"),
        ("int8", "s8"),
        ("uint32", "u32"),
        ("i64", "s64"),
        ("float8", None),
        ("bf32", None),
        ("complex64", None),
        ("xfloat32", None),
    ],
)
def test_types_by_the_names_of_others(other: str, ours: str | None) -> None:
    shown = element_name(other)
    assert shown == (f"nvb.{ours}" if ours else None)
    if ours:
        assert isinstance(getattr(nvb, ours), nvb.ElementType)


def test_the_package_names_the_type_that_is_meant() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'int32'; the element type is nvb\.s32"):
        nvb.int32  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"the element type is nvb\.s8") as caught:
        nvb.int8  # type: ignore[attr-defined]  # noqa: B018
    assert caught.value.obj is None, "Python would suggest another name"
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        nvb.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_elements_of_an_accumulator_are_scaled_as_the_fix_says() -> None:
    assert _accumulator(nvb.KernelBuilder("k", "sm_80", threads=32), scaled=True) is not None


def test_an_unknown_argument_of_compile_names_every_one_that_it_takes() -> None:
    @nvb.kernel("sm_80", threads=32)
    def kernel(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        x[0] = 1.0

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.compile(trget="sm_90")
    assert "options of compile are: target, constants, check," in str(caught.value)
