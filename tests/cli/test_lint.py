"""`nvbackend lint FILE`: what it takes, and what it says of a file that it cannot take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nvbackend.cli import main

PTX = ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() { ret; }\n"
IR = "define ptx_kernel void @k() {\n  ret void\n}\n"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("k.ptx", [], "1 function, nothing to report"),
        ("k.ptx", ["--target", "sm_90a"], "k.ptx is PTX, which names its own target"),
        ("k.ll", [], "k.ll is LLVM IR, which names no PTX target"),
        ("k.ll", ["--target", "sm_1"], "'sm_1' is not a target that nvbackend knows"),
        ("none.ptx", [], "none.ptx cannot be read: No such file or directory"),
    ],
)
def test_a_file_and_its_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, arguments: list[str], said: str
) -> None:
    (tmp_path / "k.ptx").write_text(PTX)
    (tmp_path / "k.ll").write_text(IR)
    status = main(["lint", str(tmp_path / name), *arguments])
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
    assert status == (0 if said.startswith("1 function") else 2)


@pytest.mark.parametrize(
    ("command", "place", "text"),
    [
        ("lint", "", "bar.sync 0 0;"),
        ("lint", "", "add.u32 %none, 1, 2;"),
        ("simulate", "", "bar.sync 0 0;"),
        ("simulate", "", "add.u32 %none, 1, 2;"),
        ("explain", ":6", "bar.sync 0 0;"),
    ],
)
def test_what_is_no_ptx_is_said_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, place: str, text: str
) -> None:
    """By every command that reads a file of it."""
    file = tmp_path / "wrong.ptx"
    file.write_text(f".version 9.0\n.target sm_90a\n.address_size 64\n.entry k()\n{{\n{text}\nret;\n}}\n")
    assert main([command, f"{file}{place}"]) == 2
    assert f"at {file}:6" in capsys.readouterr().err


def asm(text: str) -> str:
    return f'  call void asm sideeffect "{text}", ""()\n'


def test_the_line_of_ir_is_that_of_the_ptx_which_it_became(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.ll"
    copy = "cp.async.bulk.prefetch.L2.global [%rd1], 16;"
    file.write_text(IR.replace("  ret", f"{asm('.reg .b64 %rd<2>; mov.b64 %rd1, 0;')}{asm(copy)}  ret"))
    assert main(["lint", str(file), "--target", "sm_80"]) == 2
    (place,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("  at ")]
    assert place.startswith(f"  at {file} as PTX:")
    assert place.endswith(f"    {copy}")


def test_notes_have_places_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = (
        ".reg .b64 %rd<2>; .shared .align 16 .b8 box[64];\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [box], 64;\nret;"
    )
    file = tmp_path / "k.ptx"
    file.write_text(PTX.replace(" ret;", body))
    assert main(["lint", str(file), "--json"]) == 2
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert error["line"] == 6
    assert error["notes"] == [{"message": "the operation is issued here", "file": str(file), "line": 5}]
