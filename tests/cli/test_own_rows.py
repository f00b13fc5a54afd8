"""Rows of packages other than nvbackend: in the catalogue, explained, and emitted with registers that are apart."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import s32, u32
from nvbackend.cli.own_rows import GROUP
from nvbackend.cli.program import main
from nvbackend.rows import Asm, RegisterClass, Row, operand, output

B32 = RegisterClass.B32
ROW = Row(
    family="mine",
    opcode="mine",
    ptx="add.mine.u32",
    operands=(output("d", B32), operand("a", B32)),
    lowering=Asm("mov.u32 {d}, 1; add.u32 {d}, {d}, {a};"),
    summary="One more.",
)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    made: Any = ModuleType("rows_of_somebody")
    made.rows = lambda: [ROW]
    made.others = lambda: [5]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return str(made.__name__)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(arguments)
    out, err = capsys.readouterr()
    return status, out + err


def test_a_module_that_is_named(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = printed(capsys, "catalogue", "--family", "mine", "--target", "sm_90a", "--rows", module)
    assert status == 0
    assert "add.mine.u32" in text
    assert "1 row, 1 legal" in text
    status, text = printed(capsys, "explain", "add.mine.u32 %r1, %r2;", "--rows", f"{module}:rows")
    assert status == 0
    assert "One more." in text
    assert printed(capsys, "explain", "add.mine.u32")[0] != 0


def test_a_row_of_the_same_spelling_comes_first(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    same = Row("mine", "mine", "mul.hi.u32", ROW.operands, ROW.lowering, summary="Not the built-in one.")
    monkeypatch.setattr(sys.modules[module], "rows", lambda: [same])
    status, text = printed(capsys, "explain", "mul.hi.u32", "--rows", module)
    assert status == 0
    assert text.index("Not the built-in one.") < text.index("integers;")


def test_an_installed_package(module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    point = metadata.EntryPoint("mine", f"{module}:rows", GROUP)
    monkeypatch.setattr("nvbackend.cli.own_rows.entry_points", lambda group: [point] if group == GROUP else [])
    status, text = printed(capsys, "explain", "add.mine.u32")
    assert status == 0
    assert "One more." in text


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("rows_of_somebody:others", "it gives 5, which is not a Row"),
        ("rows_of_somebody:none", "AttributeError: module 'rows_of_somebody' has no attribute 'none'"),
    ],
)
def test_what_gives_no_rows(name: str, problem: str, module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert module
    status, text = printed(capsys, "catalogue", "--rows", name)
    assert status == 2
    assert "error[cli.own-rows]" in text
    assert name in text
    assert problem in text


def test_an_input_that_is_read_late_keeps_its_register() -> None:
    """In a loop the output and the input are one variable, which LLVM would give one register."""
    assert ROW.reads_late
    assert ROW.constraints == "=&r,r"

    @nvb.kernel("sm_90a", threads=32)
    def counting(k, out: nvb.Pointer[u32], n: s32):
        value = k.var(k.thread_id().to(u32))
        with k.range(n):
            value.set(k.instruction(ROW, a=value.value)["d"][0])
        out[k.thread_id()] = value.value

    out = np.zeros(32, np.uint32)
    nvb.runtime.load(counting.compile(), device="simulator").launch(1, out, 5)
    assert out.tolist() == [lane + 5 for lane in range(32)]


@pytest.mark.parametrize(
    ("template", "late"),
    [
        ("{ptx} {d}, {a};", False),
        ("{{ .reg .u32 x; mov.u32 x, {a}; add.u32 {d}, x, 1; }}", False),
        ("mov.u32 {d}, {a}; add.u32 {d}, {d}, 1;", False),
        ("mov.b32 {{{d}}}, 1; add.u32 {d}, {d}, {a};", True),
    ],
)
def test_which_texts_read_late(template: str, late: bool) -> None:
    row = Row(family="f", opcode="o", ptx="p", operands=ROW.operands, lowering=Asm(template))
    assert row.reads_late is late


def test_a_row_of_another_spelling_is_not_of_a_line(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.ptx"
    file.write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry k()\n{\n.reg .b32 %r<3>;\nmov.u32 %r1, %tid.x;\ncvt.rn.f32.u32 %r2, %r1;\nret;\n}\n",
        encoding="utf-8",
    )
    status, text = printed(capsys, "explain", f"{file}:8", "--rows", module, "--json")
    assert status == 0
    assert "cvt.rn.f32.u32" in text
    assert ROW.ptx not in text
