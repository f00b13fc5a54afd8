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
