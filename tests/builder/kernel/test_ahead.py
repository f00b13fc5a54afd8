"""LLVM and ptxas work on a kernel while it is judged: the same kernel, the same errors in the same order."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import i32
from nvbackend.builder.kernel import kernel as kernel_module
from nvbackend.codegen import isolated as isolated_module
from nvbackend.codegen import llvm as llvm_module
from nvbackend.codegen.toolchain import Tool, find_ptxas
from nvbackend.isel.verify import verify as verifier
from nvbackend.rules import Finding, Flow, Rule
from tests.support.process import run_python

NO_CACHE = nvb.Cache.disabled()


@nvb.kernel("sm_80", threads=128)
def right(k: Any, out: nvb.Pointer[i32]) -> None:
    out[k.thread_id()] = 1


@nvb.kernel("sm_80", threads=128)
def wrong(k: Any, out: nvb.Pointer[i32]) -> None:
    """What the verifier lets through, and the dry run does not."""
    buffer = k.shared(i32, 256)
    buffer[k.thread_id()] = k.thread_id()
    k.barrier.sync()
    out[k.thread_id()] = buffer[128 + k.thread_id()]


@nvb.kernel("sm_80", threads=128)
def refused(k: Any, out: nvb.Pointer[i32]) -> None:
    """What the verifier does not let through."""
    with k.if_(k.thread_id() < 7):
        k.barrier.sync()
    out[k.thread_id()] = 1


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages that LLVM has done, or begun."""
    done: list[str] = []

    def noted(name: str, stage: str) -> None:
        before = getattr(llvm_module, name)

        def noting(*given: Any) -> Any:
            done.append(stage)
            return before(*given)

        monkeypatch.setattr(llvm_module, name, noting)

    noted("_close", "optimised")
    noted("_refuse_symbols", "printing")
    return done


def thread_of_llvm() -> threading.Thread | None:
    return next((each for each in threading.enumerate() if each.name == "nvbackend compile"), None)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Popen[str]]:
    """Every program that is started; their files are in `tmp_path`."""
    started: list[Popen[str]] = []

    def start(*given: Any, **named: Any) -> Popen[str]:
        started.append(Popen(*given, **named))
        return started[-1]

    find_ptxas()  # which is asked for its version once
    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return started


def failing(folder: Path, seconds: float = 0) -> Tool:
    """A ptxas that says what is wrong, or only takes its time."""
    path = folder / "ptxas"
    says = "echo 'ptxas fatal   : of the assembler' >&2\nexit 255"
    path.write_text(f"#!/bin/sh\n{f'exec sleep {seconds}' if seconds else says}\n")  # exec: killed with the script
    path.chmod(0o755)
    return Tool(path, (13, 0, 0), "a script")


def rules_of(caught: pytest.ExceptionInfo[nvb.DiagnosticError]) -> list[str]:
    return [each.rule_id for each in caught.value.diagnostics]


def rules_of_build(definition: nvb.KernelDefinition) -> list[str]:
    with pytest.raises(nvb.DiagnosticError) as caught:
        definition.build()
    return rules_of(caught)


def test_it_runs_meanwhile(processes: list[Popen[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []
    dry_run = kernel_module.dry_run

    def watched(*given: Any) -> Any:
        for thread in threading.enumerate():
            if thread.name == "nvbackend compile":
                thread.join()
        running.append(len(processes))
        return dry_run(*given)

    monkeypatch.setattr(kernel_module, "dry_run", watched)
    ahead = right.compile(cache=NO_CACHE)
    assert (running, len(processes)) == ([1], 1)
    after = right.build().compile(cache=NO_CACHE)
    assert (running, len(processes)) == ([1, 1], 2)
    assert ahead == after
    assert [*ahead.timings] == [*after.timings]
    right.compile(cache=NO_CACHE, assemble=False)
    right.compile(cache=NO_CACHE, check=False)
    assert (running, len(processes)) == ([1, 1, 2], 3)


def waiting_verifier(stages: list[str], monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Has the verifier wait for LLVM's passes; what had been done when it ended."""
    verify, seen = verifier.verify, list[list[str]]()

    def waits(*given: Any, **named: Any) -> Any:
        until = time.monotonic() + 60
        while "optimised" not in stages and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(0.05)
        seen.append([*stages])
        return verify(*given, **named)

    monkeypatch.setattr(verifier, "verify", waits)
    return seen


@pytest.mark.parametrize("check", [True, False])
def test_the_passes_run_while_it_is_verified(stages: list[str], monkeypatch: pytest.MonkeyPatch, check: bool) -> None:
    seen = waiting_verifier(stages, monkeypatch)
    right.compile(cache=NO_CACHE, check=check, assemble=False)
    assert seen == [["optimised"]]
    assert stages == ["optimised", "printing"]


def test_what_is_not_verified_is_not_printed(stages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's code generator ends the process on what it cannot select."""
    seen = waiting_verifier(stages, monkeypatch)
    with pytest.raises(nvb.DiagnosticError) as caught:
        refused.compile(cache=NO_CACHE)
    assert rules_of(caught) == rules_of_build(refused)
    if (thread := thread_of_llvm()) is not None:
        thread.join()
    assert seen == [["optimised"]] * 2
    assert stages == ["optimised"]


def test_another_process_does_not_begin_before_it_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    compile_ir = isolated_module.compile_ir_isolated

    def noted(*given: Any, **named: Any) -> Any:
        begun.append(threading.current_thread().name)
        return compile_ir(*given, **named)

    monkeypatch.setattr(isolated_module, "compile_ir_isolated", noted)
    with pytest.raises(nvb.DiagnosticError) as caught:
        refused.compile(cache=NO_CACHE, isolated=True)
    if (thread := thread_of_llvm()) is not None:
        thread.join()
    assert rules_of(caught) == rules_of_build(refused)
    assert begun == []
    right.compile(cache=NO_CACHE, isolated=True, assemble=False)
    assert begun == ["nvbackend compile"]


def test_a_text_that_cannot_be_written_is_told_after_the_verifier_s(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> str:
        raise ZeroDivisionError

    expected = rules_of_build(refused)
    monkeypatch.setattr(kernel_module, "kernel_text", broken)
    with pytest.raises(nvb.DiagnosticError) as caught:
        refused.compile(cache=NO_CACHE)
    assert rules_of(caught) == expected
    with pytest.raises(ZeroDivisionError):
        right.compile(cache=NO_CACHE)


def test_nobody_waits_for_the_passes_of_a_refused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    passes, goes_on = llvm_module._passes, threading.Event()

    class Slow:
        def run(self, *given: Any) -> None:
            goes_on.wait(60)

    @contextlib.contextmanager
    def slow(*given: Any) -> Iterator[tuple[Any, Any]]:
        with passes(*given) as (_, builder):
            yield Slow(), builder

    monkeypatch.setattr(llvm_module, "_passes", slow)
    with pytest.raises(nvb.DiagnosticError):
        refused.compile(cache=NO_CACHE)
    thread = thread_of_llvm()
    assert thread is not None
    goes_on.set()
    thread.join()


def test_an_analysis_of_the_author_s_own_comes_first(stages: list[str]) -> None:
    """It may do anything, so what it leaves is written down after it."""
    seen: list[list[str]] = []

    def analysis(_: Flow) -> Iterator[Finding]:
        time.sleep(0.05)
        seen.append([*stages])
        yield from ()

    own = Rule("house.none", message="none", fix="none", reference="none", analysis=analysis)

    @nvb.kernel("sm_80", threads=128, rules=[own])
    def ruled(k: Any, out: nvb.Pointer[i32]) -> None:
        out[k.thread_id()] = 1

    ruled.compile(cache=NO_CACHE, assemble=False)
    assert (seen, stages) == ([[]], ["optimised", "printing"])


def test_the_text_has_what_is_known_of_the_threads() -> None:
    """A shuffle where a part of a warp comes is replaced once the branches are known."""

    @nvb.kernel("sm_80", threads=128)
    def parted(k: Any, out: nvb.Pointer[i32]) -> None:
        with k.if_(k.thread_id() % 32 < 7):
            out[k.warp_id()] = 1

    compiled = parted.compile(cache=NO_CACHE, assemble=False)
    assert "shfl" not in compiled.ptx
    assert compiled == parted.build().compile(cache=NO_CACHE, assemble=False)


def test_without_more_threads_it_is_done_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = right.compile(cache=NO_CACHE)

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    assert right.compile(cache=NO_CACHE) == usual
    with pytest.raises(nvb.DiagnosticError) as caught:
        wrong.compile(cache=NO_CACHE)
    assert rules_of(caught) == ["dry-run.unwritten"]


def test_a_kernel_that_fails_leaves_no_program_and_no_file(processes: list[Popen[str]], tmp_path: Path) -> None:
    slow = failing(tmp_path, 600)
    with pytest.raises(nvb.DiagnosticError) as caught:
        wrong.compile(cache=NO_CACHE, tool=slow)
    assert rules_of(caught) == ["dry-run.unwritten"]
    assert processes[0].returncode is not None
    assert os.listdir(tmp_path) == ["ptxas"]


def test_errors_of_the_dry_run_come_first(tmp_path: Path) -> None:
    tool = failing(tmp_path)
    with pytest.raises(nvb.DiagnosticError) as ahead:
        right.compile(cache=NO_CACHE, tool=tool)
    with pytest.raises(nvb.DiagnosticError) as after:
        right.build().compile(cache=NO_CACHE, tool=tool)
    [first], [second] = ahead.value.diagnostics, after.value.diagnostics
    assert first.rule_id == "ptxas.crash" or "of the assembler" in first.message
    assert (first.rule_id, first.message, first.fix) == (second.rule_id, second.message, second.fix)
    assert first.location is not None
    assert second.location is not None
    assert (first.location.file, second.location.file) == (__file__, __file__)
    with pytest.raises(nvb.DiagnosticError) as caught:
        wrong.compile(cache=NO_CACHE, tool=tool)
    assert rules_of(caught) == ["dry-run.unwritten"]


@pytest.mark.parametrize("options", [{"optimize": 9}, {"ptxas_level": 7}, {"register_limit": -1}], ids=str)
def test_wrong_options_are_told_after_it(options: dict[str, Any]) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        wrong.compile(cache=NO_CACHE, **options)
    assert rules_of(caught) == ["dry-run.unwritten"]
    with pytest.raises(nvb.DiagnosticError) as caught:
        right.compile(cache=NO_CACHE, **options)
    assert rules_of(caught)[0].startswith(("llvm.", "ptxas."))


def test_a_kernel_that_fails_is_not_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVBACKEND_DUMP", str(tmp_path / "dump"))
    with pytest.raises(nvb.DiagnosticError):
        wrong.compile(cache=NO_CACHE)
    assert not (tmp_path / "dump").exists()
    right.compile(cache=NO_CACHE)
    assert list((tmp_path / "dump").glob("right-*/kernel.cubin"))


ASKED = """
import subprocess, sys, threading
import nvbackend as nvb
from nvbackend.codegen.toolchain import Tool, locate

run, start, asked, begun = subprocess.run, threading.Thread.start, [], []

def noting(command, **options):
    asked.append((threading.current_thread().name, command[-1]))
    return run(command, **options)

def beginning(thread):
    begun.append(thread.name)
    start(thread)

subprocess.run, threading.Thread.start = noting, beginning

@nvb.kernel("sm_80", threads=128)
def kernel(k, out: nvb.Pointer[nvb.i32], *, number: int = 1) -> None:
    out[k.thread_id()] = number

for options in eval(sys.argv[1]):
    kernel.compile(cache=nvb.Cache.disabled(), **options)
    [thread.join() for thread in threading.enumerate() if thread.name == "nvbackend ptxas"]
    print(("nvbackend ptxas", "--version") in asked, "nvbackend ptxas" in begun)
    asked.clear()
    begun.clear()
"""


@pytest.mark.parametrize(
    "options",
    [
        ['{"assemble": False}', "{}", '{"number": 2}'],
        ['{"tool": Tool(locate("ptxas"), (13, 0, 0))}', '{"assemble": None}', "{}"],
    ],
    ids=["by default", "where there is one"],
)
def test_ptxas_is_asked_for_its_version_beside_the_passes(options: list[str]) -> None:
    """Once in a process, if it is needed and not given, and not by the thread that assembles."""
    done = run_python(ASKED, f"[{', '.join(options)}]")
    assert done.stdout.splitlines() == ["False False", "True True", "False False"], done.stderr


def test_a_builder_compiles_ahead_too(processes: list[Popen[str]]) -> None:
    def built() -> nvb.KernelBuilder:
        k = nvb.KernelBuilder("k", "sm_80", threads=32)
        k.barrier.sync()
        return k

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert built().compile(cache=NO_CACHE) == built().finish().compile(cache=NO_CACHE)
    assert len(processes) == 2


@pytest.mark.parametrize("options", [{"assemble": "yes"}, {"isolated": "no"}, {"isolated": 1.0}])
def test_an_option_of_another_kind_is_refused(options: dict[str, Any]) -> None:
    """What was begun with it does not count."""
    with pytest.raises(nvb.DiagnosticError) as caught:
        right.compile(cache=NO_CACHE, **options)
    assert rules_of(caught) == ["call.argument"]
    ((name, value),) = options.items()
    assert f"{name} must be " in caught.value.diagnostics[0].message
    assert repr(value) in caught.value.diagnostics[0].message


@pytest.mark.parametrize("stage", ["verify", "dry_run"])
def test_what_is_interrupted_leaves_no_program_and_no_thread(
    stage: str, processes: list[Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while somebody keeps the exception."""
    slow = failing(tmp_path, 600)

    def interrupted(*_: Any, **__: Any) -> Any:
        if stage == "dry_run" and (thread := thread_of_llvm()) is not None:
            thread.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(verifier if stage == "verify" else kernel_module, stage, interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        right.compile(cache=NO_CACHE, tool=slow)
    if (thread := thread_of_llvm()) is not None:
        thread.join()
    assert [each.returncode is not None for each in processes] == [True] * (stage == "dry_run")
    assert os.listdir(tmp_path) == ["ptxas"]
    del caught


def test_what_begins_after_the_analyses_runs_beside_the_dry_run(
    processes: list[Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[int] = []
    dry_run = kernel_module.dry_run

    def watched(*given: Any) -> Any:
        if (thread := thread_of_llvm()) is not None:
            thread.join()
        running.append(len(processes))
        return dry_run(*given)

    monkeypatch.setattr(kernel_module, "dry_run", watched)
    own = Rule("house.none", message="none", fix="none", reference="none", analysis=lambda _: iter(()))
    ruled = nvb.kernel("sm_80", threads=128, rules=[own])(lone)
    ruled.compile(cache=NO_CACHE)
    assert (running, len(processes)) == ([1], 1)


def lone(k: Any, out: nvb.Pointer[i32]) -> None:
    out[k.thread_id()] = 1
