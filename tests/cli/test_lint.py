"""`nvbackend lint FILE`: what it takes, and what it says of a file that it cannot take."""

from __future__ import annotations

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
