"""Kernels from another process: nothing is built where all is as it was, and anything else is built anew.

Another process is a module with the same text, or one: its definitions know nothing of the ones before.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.again import on_disk, programs
from nvbackend.builder.kernel.again.on_disk import KernelsOnDisk
from nvbackend.builder.kernel.again.reads import Reads
from nvbackend.codegen.cache import pack
from nvbackend.codegen.pickled import loaded
from tests.builder.kernel.test_reads import TEXTS, UNFOLLOWED
from tests.support.compiled_again import BODY, HEAD, KEY, Runs, classes_as_they_are, in_module
from tests.support.process import ROOT

Compile = Callable[..., Any]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setattr(KernelsOnDisk, "key", KEY)
    monkeypatch.setattr(on_disk, "users_files", lambda _began: "the files of this program")
    return Runs(monkeypatch)


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compile a module's kernel with a cache of the test's own."""

    def compile_(module: ModuleType, **options: Any) -> Any:
        return module.kernel.compile(**{"assemble": False, "cache": nvb.Cache(tmp_path / "cache"), **options})

    return compile_


@pytest.mark.parametrize("what", TEXTS)
def test_what_is_read_is_compared(what: str, runs: Runs, compiled: Compile) -> None:
    text, change = TEXTS[what]
    before = compiled(in_module(text))
    assert runs.count == 1
    again = compiled(in_module(text))
    assert (again, again.ir) == (before, before.ir)
    assert runs.count == 1, "nothing has changed"
    module = in_module(text)
    exec(change, vars(module))
    after = compiled(module)
    assert after.ir == module.kernel.build().ir
    assert (after.ir, after.signature, after.target) != (before.ir, before.signature, before.target)


def test_no_look_is_taken_after_a_kernel_came_from_disk(
    runs: Runs, compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, cache = BODY + "1.0", nvb.Cache(tmp_path)
    first, module = compiled(in_module(text), cache=cache), in_module(text)
    assert compiled(module, cache=cache) == first
    monkeypatch.setattr(Reads, "of", None)
    assert compiled(module, cache=cache) == first
    assert runs.count == 1


@pytest.mark.parametrize("what", UNFOLLOWED)
def test_what_cannot_be_followed_is_built_each_time(what: str, runs: Runs, compiled: Compile) -> None:
    text, _ = UNFOLLOWED[what]
    with classes_as_they_are():
        for _ in range(2):
            compiled(in_module(text))
    assert runs.count == 2


def test_a_kernel_that_is_not_built_has_its_line(
    runs: Runs, compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, log = BODY + "1.0", tmp_path / "log.jsonl"
    compiled(in_module(text))
    monkeypatch.setenv("NVBACKEND_LOG", "stderr")
    compiled(in_module(text))
    assert capsys.readouterr().err == "nvbackend: kernel for sm_80: whole kernel cached\n"
    monkeypatch.setenv("NVBACKEND_LOG", str(log))
    compiled(in_module(text))
    line = json.loads(log.read_text(encoding="utf-8"))
    assert (line["kernel"], line["seconds"], line["cached"]) == ("kernel", {}, ["kernel"])
    monkeypatch.setenv("NVBACKEND_LOG", str(tmp_path))
    with pytest.raises(nvb.DiagnosticError, match=r"log\.write.*Is a directory"):
        compiled(in_module(text))
    assert runs.count == 1


def test_the_same_lines_elsewhere_are_another_kernel(runs: Runs, compiled: Compile) -> None:
    """Its diagnostics and its debug lines name them."""
    text = BODY + "1.0"
    line = compiled(in_module(text)).ir
    assert compiled(in_module("\n" + text)).ir != line
    assert runs.count == 2


HELPER = "def h(x, y=1.0): return x + y\n"
EDITS = {
    "a constant": (BODY + "1.0", BODY + "2.0"),
    "an operator": (BODY + "3.0 - 1.0 * len(nvb.f32.name)", BODY + "3.0 + 1.0 * len(nvb.f32.name)"),
    "a helper": (HELPER + BODY + "h(1.0)", HELPER.replace("x + y", "x - y") + BODY + "h(1.0)"),
    "a helper's default": (HELPER + BODY + "h(1.0)", HELPER.replace("y=1.0", "y=2.0") + BODY + "h(1.0)"),
    "an attribute": (BODY + "float(nvb.f32.bits)", BODY + "float(nvb.f16.bits)"),
    "which of two names": (BODY + "(lambda a, b: a)(1.0, 2.0)", BODY + "(lambda a, b: b)(1.0, 2.0)"),
    "a constant in a set": (BODY + "float(3 in {1, 2})", BODY + "float(3 in {1, 3})"),
    "a function inside": (BODY + "(lambda: (lambda: 1.0)())()", BODY + "(lambda: (lambda: 2.0)())()"),
    "a type": (BODY + "1.0", BODY.replace("Pointer[f32]", "Pointer[nvb.f64]") + "1.0"),
    "a keyword's default": (
        HEAD + "def kernel(k, out: nvb.Pointer[f32], *, n=1.0): out[0] = n",
        HEAD + "def kernel(k, out: nvb.Pointer[f32], *, n=2.0): out[0] = n",
    ),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_between_processes_is_seen(what: str, runs: Runs, compiled: Compile) -> None:
    before, after = (compiled(in_module(text)) for text in EDITS[what])
    assert runs.count == 2
    assert before.ir != after.ir
    for text, first in zip(EDITS[what], (before, after), strict=True):
        assert compiled(in_module(text)).ir == first.ir
    assert runs.count == 2


CONSTANT = HEAD + "def kernel(k, out: nvb.Pointer[f32], *, n=1.0): out[0] = n"


def test_constants_options_and_targets_are_compared(runs: Runs, compiled: Compile) -> None:
    asked: list[dict[str, Any]] = [
        {},
        {"n": 2.0},
        {"n": 2},
        {"target": "sm_90a"},
        {"optimize": 1},
        {"check": False},
        {"debug": False},
        {"assemble": True},
        {"assemble": True, "ptxas_level": 1},
        {"assemble": True, "register_limit": 32},
    ]
    first = [compiled(in_module(CONSTANT), **options) for options in asked]
    assert runs.count == len(asked)
    second = [compiled(in_module(CONSTANT), **options) for options in asked]
    assert runs.count == len(asked)
    assert first == second
    for decorator in ('"sm_80", threads=64', '"sm_80", threads=32, min_ctas=2', '"sm_80", threads=32, name="other"'):
        compiled(in_module(CONSTANT.replace('"sm_80", threads=32', decorator)))
    assert runs.count == len(asked) + 3


@pytest.mark.parametrize("options", ["", "inline=False"])
def test_a_kernel_that_calls_device_functions_is_kept(options: str, runs: Runs, compiled: Compile) -> None:
    text = (
        f"""
@nvb.function({options})
def scaled(k, x: nvb.f32) -> nvb.f32:
    return x * FACTOR
FACTOR = 2.0
"""
        + BODY
        + "scaled(k, out[0])"
    )
    before = in_module(text)
    first = compiled(before)
    assert compiled(before).ptx == first.ptx
    assert compiled(in_module(text)).ptx == first.ptx
    assert runs.count == 1
    assert compiled(in_module(text.replace("2.0", "3.0"))).ptx != first.ptx


def test_what_comes_from_disk_is_the_kernel(runs: Runs, compiled: Compile) -> None:
    built = compiled(in_module(CONSTANT), assemble=True)
    found = compiled(in_module(CONSTANT), assemble=True)
    assert runs.count == 1
    assert found.cached == tuple(built.timings)
    assert set(found.timings.values()) == {0.0}
    for made in (found, copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found)), found.again()):
        assert (made, hash(made), type(made)) == (built, hash(built), type(built))
        assert str(made.machine) == str(built.machine)
        assert made.selected == built.selected
        assert made.summary() == built.summary()
    assert found.machine is found.machine
    with pytest.raises(AttributeError, match="nothing_like_it"):
        found.nothing_like_it  # noqa: B018


def test_it_is_kept_where_it_is_asked_for(runs: Runs, tmp_path: Path) -> None:
    for cache in (nvb.Cache(tmp_path / "a"), nvb.Cache(tmp_path / "b"), nvb.Cache.disabled(), nvb.Cache.disabled()):
        in_module(CONSTANT).kernel.compile(assemble=False, cache=cache)
    assert runs.count == 4


def test_how_much_a_cache_holds_is_no_part_of_the_kernel(runs: Runs, tmp_path: Path) -> None:
    for limit in (2**20, 2**21):
        in_module(CONSTANT).kernel.compile(assemble=False, cache=nvb.Cache(tmp_path, limit))
    assert runs.count == 1


def test_other_programs_build_anew(runs: Runs, compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    for others in ("these", "those", "these"):
        monkeypatch.setattr(programs, "installed", lambda others=others: others)
        compiled(in_module(CONSTANT))
    assert runs.count == 2
    monkeypatch.setattr(programs, "installed", lambda: None)
    compiled(in_module(CONSTANT))
    assert runs.count == 3


def test_other_files_of_the_package_build_anew(runs: Runs, compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(in_module(CONSTANT))
    compiled(in_module(CONSTANT))
    assert runs.count == 1
    with monkeypatch.context() as patched:
        patched.setattr(programs, "are_as_then", lambda _files: False)
        compiled(in_module(CONSTANT))
    assert runs.count == 2
    compiled(in_module(CONSTANT))
    assert runs.count == 2


def test_what_cannot_say_by_which_files_it_was_made_is_not_kept(
    runs: Runs, compiled: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "loaded", lambda: None)
    for _ in range(2):
        compiled(in_module(CONSTANT))
    assert runs.count == 2


def test_another_ptxas_assembles_anew(runs: Runs, compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    from nvbackend.codegen import toolchain

    program, changed = toolchain.PtxasSearch().program()
    for given in ((program, changed), (program, changed), (program, (1, 2, 3)), (program, changed)):
        monkeypatch.setattr(toolchain.PtxasSearch, "program", lambda _self, given=given: given)
        compiled(in_module(CONSTANT), assemble=True)
    assert runs.count == 2


def test_a_script_for_ptxas_says_nothing(
    runs: Runs, compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nvbackend.codegen import toolchain

    script = tmp_path / "ptxas"
    script.write_text("#!/bin/sh\nexec ptxas")
    monkeypatch.setattr(toolchain.PtxasSearch, "program", lambda _self: (str(script), (1, 2, 3)))
    for _ in range(2):
        compiled(in_module(CONSTANT), assemble=None)
    assert runs.count == 2


def test_forms_to_be_dumped_are_made(
    runs: Runs, compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(in_module(CONSTANT))
    monkeypatch.setenv("NVBACKEND_DUMP", str(tmp_path / "dump"))
    compiled(in_module(CONSTANT))
    assert runs.count == 2
    assert list((tmp_path / "dump").glob("kernel-*/kernel.ptx"))


def test_a_compiler_s_own_lines_are_its_user_s(runs: Runs, compiled: Compile) -> None:
    """The kernel's lines are then those that compile it, which are not read."""
    for _ in range(2):
        compiled(in_module("__nvbackend_plumbing__ = True\n" + CONSTANT))
    assert runs.count == 2


def test_warnings_are_given_again(runs: Runs, compiled: Compile) -> None:
    allowed = "k.allow('wgmma.unwritten', reason='never')"
    text = HEAD + f"def kernel(k, out: nvb.Pointer[f32]):\n    with {allowed}: out[0] = 1.0"
    for _ in range(2):
        with pytest.warns(nvb.DiagnosticWarning):
            assert compiled(in_module(text)).diagnostics
    assert runs.count == 1


def test_an_entry_of_something_else_is_no_kernel(
    runs: Runs, compiled: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(in_module(CONSTANT))
    for content in (b"", b"{}\n", b"nothing", pack({"others": b"", "machine": b""}), pack(OF_NO_FILES)):
        monkeypatch.setattr(nvb.Cache, "get", lambda *_, content=content: content)
        assert compiled(in_module(CONSTANT)).ptx
    assert runs.count == 6


OF_NO_FILES = {"made_by": pickle.dumps(()), "others": b"", "machine": b""}


class _Run:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.getpid, ()


@pytest.mark.parametrize(
    "made",
    [
        _Run(),
        pytest.param(b"cnvbackend.codegen.toolchain\nfind_ptxas\n(tR.", id="a function of ours"),
        pytest.param(b"cnvbackend.codegen.toolchain\nos.getpid\n(tR.", id="by way of ours"),
        pytest.param(b"cbuiltins\neval\n(V1\ntR.", id="eval"),
    ],
)
def test_bytes_of_a_cache_call_nothing_but_classes_of_ours(made: object) -> None:
    content = made if isinstance(made, bytes) else pickle.dumps(made)
    with pytest.raises(pickle.UnpicklingError, match="not a class"):
        loaded(content)


PROGRAM = """
import json, sys, time
from pathlib import Path
import nvbackend as nvb
from nvbackend import f32
from nvbackend import f32
SIZES = frozenset({"a", "b", "c", "d"})
class Shape:
    rows = 4
def helper(k, value): return value * Shape.rows
@nvb.kernel("sm_80", threads=32)
def kernel(k, out: nvb.Pointer[f32], *, n=2):
    out[k.thread_id()] = helper(k, k.const(float(n + ("a" in SIZES)), f32))
compiled = kernel.compile(assemble=False, cache=nvb.Cache(Path(sys.argv[1])))
print(json.dumps({"cached": compiled.cached, "ptx": compiled.ptx, "modules": sorted(sys.modules)}))
"""
TYPED = (  # text that names classes of the builder, and types that depend on constants
    ("\nimport json", "from __future__ import annotations\nimport json"),
    ("import f32\nSIZES", "import f32, i32\nfrom typing import Annotated\nSIZES"),
    ("def helper", "def box(n): return nvb.TensorMap(f32, box=(n, 4), swizzle=0)\ndef helper"),
    ("(k, out: nvb.Pointer[f32]", "(k: nvb.KernelBuilder, out: Annotated[nvb.Pointer, nvb.Pointer(f32)], x: X, m: M"),
    ('@nvb.kernel("sm_80"', 'X = Annotated[nvb.TensorMap, box]\n@nvb.kernel("sm_90"'),
    ("def helper", "M = Annotated[i32, nvb.Scalar(i32)]\ndef helper"),
)


@pytest.mark.parametrize("changes", [(), TYPED], ids=["plain", "typed"])
def test_a_fresh_process_builds_nothing(changes: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    """Nor does it load the builder or LLVM; names are hashed in another way in each."""
    program, text = tmp_path / "program.py", textwrap.dedent(PROGRAM)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    program.write_text(text)

    def run(seed: str) -> Any:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        command = [sys.executable, str(program), str(tmp_path / "cache")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    first, second = run("1"), run("1")
    assert "build" not in first["cached"]
    assert "build" in second["cached"]
    assert first["ptx"] == second["ptx"]
    loaded_before = {"nvbackend.builder.core.core", "nvbackend.isel.verify.verify", "llvmlite"}
    loaded_before |= {f"nvbackend.{name}" for name in ("codegen.ptxas", "intrinsics.row.row", "isel.machine.function")}
    assert loaded_before <= set(first["modules"])
    assert loaded_before.isdisjoint(second["modules"])
    program.write_text(text.replace("rows = 4", "rows = 5"))
    third = run("1")
    assert "build" not in third["cached"]
    assert third["ptx"] != first["ptx"]
