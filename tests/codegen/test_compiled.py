"""The whole way from IR to a compiled kernel, through the cache, and what is reported."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nvbackend.codegen.cache import Cache, pack, unpack
from nvbackend.codegen.compiled import CompiledKernel
from nvbackend.codegen.stages import compiling as compiled_module
from nvbackend.codegen.stages.compiling import compile_kernel
from nvbackend.codegen.stages.options import COMPILE_OPTIONS
from nvbackend.codegen.toolchain import Tool, find_ptxas
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row import types
from nvbackend.intrinsics.row.row import Asm, Row
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.signature import LaunchBounds, Parameter, Pointer, Scalar, Signature
from tests.support.ir_texts import SCALE, wgmma_loop
from tests.support.process import python_output

HOPPER = Target.parse("sm_90a")
SIGNATURE = Signature(
    "scale",
    (Parameter("data", Pointer(types.f32)), Parameter("factor", Scalar(types.f32))),
    LaunchBounds(threads=128, cluster=2, dynamic_shared_bytes=4096),
)
STAGES = ("optimise", "print", "assemble")


def machine() -> MachineFunction:
    """A machine form to count: two of one opcode, one of another, and a pseudo-instruction."""
    row = Row("test", "wgmma.fence", "wgmma.fence.sync.aligned", (), Asm("{ptx};"))
    function = MachineFunction("scale", HOPPER)
    function.block("entry").instructions += [MachineInstr("wgmma.fence", row), MachineInstr("read")]
    function.block("body").instructions += [MachineInstr("mbarrier.init", row), MachineInstr("wgmma.fence", row)]
    return function


def build(ir: str = SCALE, cache: Cache | None = None, name: str = "scale", **options: Any) -> CompiledKernel:
    signature = replace(SIGNATURE, name=name)
    return compile_kernel(ir, signature, machine(), HOPPER, cache=cache or Cache.disabled(), **options)


def test_every_form_of_the_kernel_is_there() -> None:
    kernel = build()
    assert kernel.ir == SCALE
    assert "alloca" not in kernel.optimized_ir
    assert ".target sm_90a" in kernel.ptx
    assert kernel.cubin is not None
    assert kernel.cubin.kernel("scale").registers > 0
    assert set(kernel.timings) >= set(STAGES)
    assert kernel.cached == ()
    assert kernel.diagnostics == ()
    assert "FMUL" in kernel.sass()


def test_it_stops_at_ptx_when_told_to() -> None:
    kernel = build(assemble=False)
    assert kernel.cubin is None
    assert "assemble" not in kernel.timings
    assert kernel.ptx == build().ptx
    assert "not assembled" in kernel.report()
    assert "FMUL" in kernel.sass()


def test_without_ptxas_it_says_so_or_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    from nvbackend.codegen import toolchain

    def nowhere(name: str, explicit: object = None) -> None:
        return None

    monkeypatch.setattr(toolchain, "locate", nowhere)
    monkeypatch.setattr(compiled_module, "locate", nowhere)
    assert build(assemble=None).cubin is None
    with pytest.raises(DiagnosticError, match=r"ptxas\.missing"):
        build()


def test_the_cache_gives_the_same_kernel(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    start = time.perf_counter()
    first = build(cache=cache)
    between = time.perf_counter()
    again = build(cache=cache)
    assert sum(first.timings.values()) <= between - start, "the stages follow one another within the call"
    assert sum(again.timings.values()) <= time.perf_counter() - between
    assert min(*first.timings.values(), *again.timings.values()) >= 0
    assert first.cached == ()
    assert again.cached == STAGES
    assert again == first
    assert set(again.timings) == set(STAGES)
    assert again == build()


def test_the_time_of_ptxas_leaves_out_what_runs_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(compiled_module.time, "perf_counter", lambda: now)
    ptx, tool = build(assemble=False).ptx, find_ptxas()
    for cached in (False, True):
        stages = compiled_module._Stages("scale", HOPPER, Cache(tmp_path))
        steps = stages.assemble(ptx, tool, 3, None)
        for _ in steps:
            now += 50.0
        assert stages.timings == {"assemble": 0.0}
        assert stages.cached == (["assemble"] if cached else [])


def test_a_second_compile_takes_no_time(tmp_path: Path) -> None:
    first = build(cache=Cache(tmp_path))
    again = first.again()
    assert again == first
    assert again.machine is first.machine
    assert again.timings == dict.fromkeys(first.timings, 0.0)
    assert again.cached == tuple(first.timings)


def test_its_representation_has_none_of_the_texts() -> None:
    kernel = build()
    shown = repr(kernel)
    assert "scale" in shown
    assert kernel.cubin is not None
    for text in (kernel.ir, kernel.optimized_ir, kernel.ptx, str(kernel.machine), repr(kernel.cubin.data)):
        assert repr(text)[1:-1] not in shown


def test_the_cache_is_really_used_and_really_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    build(cache=cache)

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("compiled although it is in the cache")

    monkeypatch.setattr(compiled_module, "compiling_ir", refuse)
    monkeypatch.setattr(compiled_module, "running_ptxas", refuse)
    assert build(cache=cache).cached == STAGES
    with pytest.raises(AssertionError, match="in the cache"):
        build()


def test_warnings_come_again_from_the_cache(tmp_path: Path) -> None:
    # The accumulators are used in flight, which draws a remark.
    ir = wgmma_loop(64).replace('asm sideeffect "wgmma.wait_group.sync.aligned 0;"', 'asm sideeffect "// no wait"')
    first = build(ir, Cache(tmp_path), "gemm")
    again = build(ir, Cache(tmp_path), "gemm")
    assert "assemble" in again.cached
    rules = [found.rule_id for found in first.diagnostics]
    assert rules
    assert all(rule.startswith("ptxas.wgmma-") for rule in rules)
    assert [(found.rule_id, found.message) for found in again.diagnostics] == [
        (found.rule_id, found.message) for found in first.diagnostics
    ]


@pytest.mark.parametrize(
    ("change", "recompiled"),
    [
        ({"optimize": 1}, {"optimise", "print"}),
        ({"ptxas_level": 1}, {"assemble"}),
        ({"register_limit": 200}, {"assemble"}),
    ],
)
def test_options_are_part_of_the_key(tmp_path: Path, change: dict[str, Any], recompiled: set[str]) -> None:
    cache = Cache(tmp_path)
    ir = wgmma_loop(64)
    build(ir, cache, "gemm")
    assert not recompiled & set(build(ir, cache, "gemm", **change).cached)
    assert build(ir, cache, "gemm", **change).cached == STAGES


def test_tool_and_target_are_part_of_the_key(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    build(cache=cache)
    tool = find_ptxas()
    assert build(cache=cache, tool=Tool(tool.path, tool.version, "another build")).cached == ("optimise", "print")
    for target in (Target.parse("sm_90"), Target.parse("sm_90a", (8, 4))):
        other = compile_kernel(SCALE, SIGNATURE, machine(), target, cache=cache)
        assert other.cached == ()
        assert f".target {target.name}" in other.ptx


def test_llvm_and_its_settings_are_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another LLVM prints other PTX for the same IR."""
    cache = Cache(tmp_path)
    build(cache=cache)
    changes: dict[str, object] = {
        "llvm_version": lambda: "llvmlite 0.51.0, LLVM 23.1.0",
        "CODE_GENERATOR_LEVEL": 2,
        "TUNING": {**compiled_module.TUNING, "slp_vectorization": True},
    }
    for name, value in changes.items():
        with monkeypatch.context() as changed:
            changed.setattr(compiled_module, name, value)
            assert build(cache=cache).cached == ("assemble",), name
    assert build(cache=cache).cached == STAGES


@pytest.mark.parametrize(
    ("stage", "damage"),
    [
        ("ptx", lambda parts: b"garbage"),
        ("ptx", lambda parts: pack({})),
        ("ptx", lambda parts: pack({"ptx": parts["ptx"]})),
        ("ptx", lambda parts: pack({**parts, "ptx": b""})),
        ("ptx", lambda parts: pack({**parts, "ptx": b"\xff\xff"})),
        ("ptx", lambda parts: pack({**parts, "ir": b""})),
        ("ptx", lambda parts: pack({**parts, "ptx": parts["ptx"].replace(b"sm_90a", b"sm_80")})),
        ("ptx", lambda parts: pack({**parts, "ptx": parts["ptx"].replace(b".version 9.0", b".version 8.0")})),
        ("ptx", lambda parts: pack({**parts, "ptx": parts["ptx"].replace(b"scale", b"other")})),
        ("cubin", lambda parts: b"[1, 2]\n"),
        ("cubin", lambda parts: pack({**parts, "cubin": b""})),
        ("cubin", lambda parts: pack({**parts, "cubin": b"not an image"})),
        ("cubin", lambda parts: pack({**parts, "cubin": b"no" + parts["cubin"]})),
        ("cubin", lambda parts: pack({**parts, "cubin": parts["cubin"].replace(b"scale", b"other")})),
        ("cubin", lambda parts: pack({**parts, "log": b""})),
        ("cubin", lambda parts: pack({**parts, "log": b"\xff"})),
        ("cubin", lambda parts: pack({**parts, "log": parts["log"].replace(b"sm_90a", b"sm_80")})),
    ],
)
def test_an_entry_that_is_not_of_this_kernel_is_made_again(
    tmp_path: Path, stage: str, damage: Callable[[dict[str, bytes]], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum is right: it was put like any other."""
    cache, keys, put = Cache(tmp_path), [], Cache.put
    with monkeypatch.context() as noting:
        noting.setattr(Cache, "put", lambda self, key, payload: (keys.append(key), put(self, key, payload)))
        good = build(cache=cache)
    for key in keys:
        parts = unpack(cache.get(key) or b"")
        if stage in parts:
            cache.put(key, damage(parts))
    again = build(cache=cache)
    assert again == good
    assert again.cached == (("assemble",) if stage == "ptx" else ("optimise", "print"))
    assert build(cache=cache).cached == STAGES


@pytest.mark.parametrize("given", [3.0, "3", None, -1, 4, 2**70])
def test_the_levels_are_one_of_four_integers(given: object) -> None:
    with pytest.raises(DiagnosticError, match=r"llvm\.optimize"):
        build(optimize=given)
    with pytest.raises(DiagnosticError, match=r"ptxas\.opt-level"):
        build(ptxas_level=given)


def test_a_refusal_is_not_cached_away(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    build(wgmma_loop(256), cache, "gemm")
    for _ in range(2):
        with pytest.raises(DiagnosticError, match=r"ptxas\.registers-insufficient"):
            build(wgmma_loop(256).replace('"nvvm.maxntid"="128"', '"nvvm.maxnreg"="64"'), cache, "gemm")


def test_four_processes_compile_the_same_at_once(tmp_path: Path) -> None:
    code = """
import hashlib
import sys
from multiprocessing import get_context
from pathlib import Path
from nvbackend import Cache
from tests.codegen.test_compiled import build

def digest(directory):
    kernel = build(cache=Cache(Path(directory)))
    return hashlib.sha256(kernel.ptx.encode() + kernel.cubin.data).hexdigest()

if __name__ == "__main__":
    with get_context("fork").Pool(4) as pool:
        print(*pool.map(digest, [sys.argv[1]] * 8, chunksize=1))
"""
    printed = python_output(code, str(tmp_path)).split()
    assert len(printed) == 8
    assert len(set(printed)) == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_report_says_what_was_built() -> None:
    kernel = build()
    assert kernel.cubin is not None
    report = kernel.report()
    lines = [line.split() for line in report.splitlines()]
    assert report.startswith("kernel scale for sm_90a (PTX 9.0), 128 threads, cluster 2\n")
    assert ["wgmma.fence", "2"] in lines
    assert ["mbarrier.init", "1"] in lines
    assert not any(line[:1] == ["read"] for line in lines)
    assert ["registers", str(kernel.cubin.kernel("scale").registers), "a", "thread,", "of", "255"] in lines
    assert "0 bytes static, 4096 bytes dynamic" in report
    assert re.search(rf"PTX +{len(kernel.ptx)} bytes", report)
    assert re.search(
        rf"cubin +{len(kernel.cubin.data)} bytes \(ptxas {'.'.join(map(str, find_ptxas().version))}\)", report
    )
    assert "no warnings" in report
    for stage in (*STAGES, "together"):
        assert re.search(rf"{stage} +[\d.]+ ms$", report, re.MULTILINE)


def test_report_shows_warnings_and_what_came_from_the_cache(tmp_path: Path) -> None:
    ir = wgmma_loop(64).replace("wgmma.wait_group.sync.aligned 0;", "// no wait")
    build(ir, Cache(tmp_path), "gemm")
    report = build(ir, Cache(tmp_path), "gemm").report()
    assert "1 warning\n" in report
    assert "warning[ptxas.wgmma-" in report
    assert report.count("ms, cached") == len(STAGES)


def test_report_is_the_same_but_for_the_times() -> None:
    assert build().report().partition("  time\n")[0] == build().report().partition("  time\n")[0]


def test_the_options_of_a_kernels_compile_are_those_of_compile_kernel() -> None:
    """They are listed once more, where nothing is imported that compiles."""
    parameters = inspect.signature(compile_kernel).parameters.values()
    assert tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY) == COMPILE_OPTIONS
