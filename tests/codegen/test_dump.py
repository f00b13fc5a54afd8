"""NVBACKEND_DUMP: every form of every kernel, and the same results."""

from __future__ import annotations

from pathlib import Path

import pytest

import nvbackend as nvb
from nvbackend import f32

FILES = ["kernel.cubin", "kernel.ll", "kernel.opt.ll", "kernel.ptx", "kernel.sass", "machine.txt"]


def compiled(name: str = "k", target: str = "sm_80", **options: bool) -> nvb.CompiledKernel:
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
