"""Several kernels in one module: what is shared, what is kept apart, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32
from nvbackend.builder.functions.linked import linked


def kernels(first_factor=2.0, second_factor=2.0):
    """Two kernels that call `outer`, which calls `inner`; each has its own functions of these names."""

    def made(name, factor, threads):
        @nvb.function(inline=False)
        def inner(k, x: f32) -> f32:
            return x * factor

        @nvb.function(inline=False)
        def outer(k, x: f32) -> f32:
            return inner(k, x) + 1.0

        @nvb.kernel("sm_90a", threads=threads, name=name)
        def kernel(k, out: nvb.Pointer[f32]):
            out[k.thread_id()] = outer(k, out[k.thread_id()])

        return kernel

    return [made("first", first_factor, 32), made("second", second_factor, 64)]


def bodies(ptx):
    """The functions of a PTX text that have bodies."""
    return re.findall(r"^\.func\s+\([^)]*\) (\w+)\([^)]*\)\s*{", ptx, re.MULTILINE)


def test_equal_functions_are_shared_and_others_are_not() -> None:
    module = nvb.compile_module(kernels())
    assert sorted(bodies(module.ptx)) == ["inner", "outer"]
    apart = nvb.compile_module(kernels(2.0, 3.0))
    assert len(bodies(apart.ptx)) == 4  # `outer` is the same text, and calls another function


def test_each_kernel_has_the_resources_of_its_own() -> None:
    module = nvb.compile_module(kernels())
    assert [kernel.signature.bounds.threads for kernel in module.values()] == [32, 64]
    assert module.cubin is module["second"].cubin
    assert all(module.cubin.kernel(name).registers > 0 for name in module)
    assert "kernel first for sm_90a" in module.report()
    assert "kernel second for sm_90a" in module.report()


def test_a_module_is_the_same_each_time() -> None:
    options = {"assemble": False, "cache": nvb.Cache.disabled()}
    assert nvb.compile_module(kernels(), **options).ptx == nvb.compile_module(kernels(), **options).ptx


def test_a_module_of_one_kernel_is_that_kernel() -> None:
    first, _ = kernels()
    assert nvb.compile_module([first], assemble=False).ptx == first.compile(assemble=False).ptx


def test_a_kernel_is_the_same_code_in_a_module() -> None:
    def code(ptx, name):
        text = ptx[ptx.index(f".entry {name}(") :]
        return [line for line in text[: text.index("\n}")].splitlines() if not re.match(r"\s*(\.loc|\$L__)", line)]

    first, second = kernels()
    module = nvb.compile_module([first, second], assemble=False)
    assert code(module.ptx, "first") == code(first.compile(assemble=False).ptx, "first")


def test_a_function_with_the_name_of_another_kernel_stays_what_it_is() -> None:
    def made(name, factor, called):
        @nvb.function(inline=False, name=called)
        def scaled(k, x: f32) -> f32:
            return x * factor

        @nvb.kernel("sm_90a", threads=32, name=name)
        def kernel(k, out: nvb.Pointer[f32]):
            out[k.thread_id()] = scaled(k, out[k.thread_id()])

        return kernel

    for names in (("a", "g", "b", "a"), ("b", "a", "a", "g"), ("a", "b", "b", "a")):
        first, its, second, other = names
        module = nvb.compile_module([made(first, 2.0, its), made(second, 3.0, other)], assemble=False)
        for name, factor in ((first, 2.0), (second, 3.0)):
            out = np.ones(32, np.float32)
            nvb.runtime.load(module[name], device="simulator").launch(1, out)
            assert out.tolist() == [factor] * 32


def test_functions_are_compared_with_all_that_they_call() -> None:
    texts = [kernel.build().ir for kernel in kernels(2.0, 3.0)]
    assert linked(texts).count("define internal") == 4
    assert linked([kernel.build().ir for kernel in kernels()]).count("define internal") == 2


def test_what_is_refused() -> None:
    first, second = kernels()

    def refused(given, **options):
        with pytest.raises(DiagnosticError) as raised:
            nvb.compile_module(given, **options)
        fault = raised.value.diagnostics[0]
        assert fault.location.file == __file__
        return fault.rule.id

    assert refused([first, first]) == "module.kernels"
    assert refused([]) == "module.kernels"
    assert refused([first, second.build(target="sm_80")]) == "module.kernels"
    assert refused([first.build()], target="sm_80") == "module.kernels"
    assert refused([first, 5]) == "module.kernels"
    assert refused(first) == "module.kernels"
    assert refused([first], unknown=1) == "call.argument"
    with pytest.raises(DiagnosticError, match=r"constants .* before: definition\.with_\(factor=\.\.\.\)"):
        nvb.compile_module([first], factor=2.0)


@pytest.mark.parametrize("loaded", [False, True])
def test_names_that_a_module_does_not_have(loaded) -> None:
    module = nvb.compile_module(kernels(), assemble=False)
    if loaded:
        module = nvb.runtime.load(module, device="simulator")
    for use, rule in (
        (lambda: module["secnd"], "call.name"),
        (lambda: module.launch(1), "launch.call"),
        (lambda: module(1), "launch.call"),
    ):
        with pytest.raises(DiagnosticError) as raised:
            use()
        fault = raised.value.diagnostics[0]
        assert fault.rule.id == rule
        assert "first" in fault.message
        assert "second" in fault.message
    assert [*module] == ["first", "second"]
    assert module.get("secnd") is None
    assert "secnd" not in module
    assert not hasattr(module, "launch")
