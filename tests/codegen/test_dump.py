"""NVBACKEND_DUMP and NVBACKEND_LOG: every form of every kernel, a line for each, and the same results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32

FILES = ["kernel.cubin", "kernel.ll", "kernel.opt.ll", "kernel.ptx", "kernel.sass", "machine.txt"]


def compiled(name: str = "k", target: str = "sm_80", **options: Any) -> nvb.CompiledKernel:
    k = nvb.KernelBuilder(name, target, threads=32, parameters=[nvb.Parameter("x", nvb.Pointer(f32))])
    k.arguments[0][k.thread_id()] = 1.0
    return k.finish().compile(**options)


def test_every_form_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = compiled()
    monkeypatch.setenv("NVBACKEND_DUMP", str(tmp_path / "all"))
    kernel = compiled()
    compiled("other", "sm_90", assemble=False)
    assert kernel == plain
    one, other = sorted((tmp_path / "all").iterdir())
    assert one.name.startswith("k-sm_80-") and other.name.startswith("other-sm_90-")
    assert sorted(each.name for each in one.iterdir()) == FILES
    assert sorted(each.name for each in other.iterdir()) == [FILES[1], FILES[2], FILES[3], FILES[5]]
    assert (one / "kernel.ptx").read_text() == kernel.ptx
    assert (one / "kernel.ll").read_text() == kernel.ir
    assert (one / "kernel.opt.ll").read_text() == kernel.optimized_ir
    assert (one / "machine.txt").read_text() == str(kernel.machine)
    assert kernel.cubin is not None and (one / "kernel.cubin").read_bytes() == kernel.cubin.data
    assert "test_dump.py" in (one / "kernel.sass").read_text()


def test_what_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NVBACKEND_DUMP", str(tmp_path / "file"))
    with pytest.raises(nvb.DiagnosticError) as caught:
        compiled(assemble=False)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "dump.write"
    assert diagnostic.message == f"NVBACKEND_DUMP={tmp_path / 'file'}: Not a directory"


def test_a_line_for_each_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = compiled(cache=nvb.Cache(tmp_path / "cache"))
    capsys.readouterr()
    monkeypatch.setenv("NVBACKEND_LOG", "stderr")
    fresh = compiled(cache=nvb.Cache.disabled())
    again = compiled(cache=nvb.Cache(tmp_path / "cache"))
    assert fresh == again == plain
    first, second = capsys.readouterr().err.splitlines()
    number = r"\d+\.\d ms"
    assert plain.cubin is not None
    registers = f"{plain.cubin.kernel('k').registers} registers"
    stages = rf"parse {number}, optimise {number}, print {number}, assemble {number}"
    assert re.fullmatch(rf"nvbackend: k for sm_80: {stages}; {registers}", first)
    assert "optimise cached, print cached, assemble cached" in second


def test_lines_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVBACKEND_LOG", str(tmp_path / "log.jsonl"))
    kernels = [compiled(), compiled("other", "sm_90", assemble=False)]
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(line["kernel"], line["target"]) for line in lines] == [("k", "sm_80"), ("other", "sm_90")]
    assert all(kernel.timings.items() >= line["seconds"].items() for line, kernel in zip(lines, kernels, strict=True))
    assert set(lines[0]["seconds"]) >= {"optimise", "print", "assemble"}
    assert kernels[0].cubin is not None
    assert lines[0]["registers"] == kernels[0].cubin.kernel("k").registers
    assert "registers" not in lines[1]


def test_a_log_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVBACKEND_LOG", str(tmp_path))
    with pytest.raises(nvb.DiagnosticError, match=r"log.write.*Is a directory"):
        compiled(assemble=False)
