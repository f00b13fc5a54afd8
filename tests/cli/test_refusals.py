"""What the command line refuses: the value that is wrong, and what to write in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvbackend.cli.files.commits import file_in
from nvbackend.cli.program import main

Printed = pytest.CaptureFixture[str]
LAYOUT = "(8,8):(1,8)"
FILES = {
    "bytes.ptx": b"\xff\xfe\x00",
    "empty.ptx": b".version 8.0\n.target sm_90a\n.address_size 64\n",
    "empty.py": b"x = 1\n",
    "short.ptx": b".version 8.0\n.target sm_90a\n.address_size 64\n.entry k()\n{\n    ret;\n}\n",
}
WITHOUT_ROW = "LLVM prints add.s32 for ordinary code and it has no row: nvbackend explain FILE.ptx:LINE explains"
USAGE_OF_LINT = "usage: nvbackend lint [-h] [--target T] [--json] FILE; nvbackend lint --help explains it"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "problem", "fix"),
    [
        (["lint", "none.ptx"], "none.ptx cannot be read: No such file or directory", "name a file of PTX or LLVM IR"),
        (["lint", "bytes.ptx"], "bytes.ptx is not text", "name a file of PTX or LLVM IR"),
        (
            ["lint", "empty.py"],
            "empty.py is a program of Python, not PTX",
            "nvbackend build empty.py judges its kernels",
        ),
        (
            ["lint", "empty.ptx", "--target", "sm_90a"],
            "empty.ptx is PTX, which names its own target",
            "leave --target out",
        ),
        (["explain", "bytes.ptx:3"], "bytes.ptx is not text", "name a file of PTX and a line of it"),
        (["explain", "empty.ptx:1"], "empty.ptx has no instructions", "name a file that has a function"),
        (["build", "empty.py"], "empty.py has no kernel", "define one at its top level: @nvb.kernel(...)"),
        (["explain", "empty.ptx"], "empty.ptx has no instructions", "name a file that has a function"),
        (["explain", "empty.ptx:x"], "empty.ptx has no instructions", "name a file that has a function"),
        (["explain", "none.ptx"], "none.ptx cannot be read: No such file or directory", "name a file of PTX"),
        (["explain", "short.ptx"], "short.ptx names no line", "add the number of one: short.ptx:6"),
        (["explain", "short.ptx:x"], "short.ptx:x names no line", "add the number of one: short.ptx:6"),
        (
            ["draw", "hello"],
            "'hello' is not a layout, an MMA atom or the spelling of an instruction that nvbackend knows",
            "use one of those that nvbackend catalogue lists",
        ),
        (
            ["explain", "add.s32"],
            "'add.s32' is not the spelling of an instruction that nvbackend knows",
            f"use one of add.sat.s32, add.rz.f32, add.rp.f32, add.rn.f32, add.rm.f32; {WITHOUT_ROW}",
        ),
        (
            [],
            "the following arguments are required: COMMAND",
            "usage: nvbackend [-h] [--version] [--print-completion {bash,zsh,tcsh}] COMMAND ...; COMMAND is one of",
        ),
        (["lint"], "the following arguments are required: FILE", USAGE_OF_LINT),
        (["simulate", "empty.ptx"], "empty.ptx has no kernel", "name a file of PTX with an .entry"),
        (["simulate", "none.ptx"], "none.ptx cannot be read: No such file or directory", "name a file of PTX"),
        (["simulate", "bytes.ptx"], "bytes.ptx is not text", "name a file of PTX"),
        (["simulate", ""], "'' cannot be read: Is a directory", "name a file of PTX"),
        (["simulate", "a\x00.ptx"], r"'a\x00.ptx' cannot be read: embedded null byte", "name a file of PTX"),
        (["simulate", "empty.py"], "empty.py is a program of Python, not PTX", "nvbackend build empty.py --show ptx"),
        (["draw", LAYOUT, "--operand", "a"], "a layout has no operands (--operand)", "draw a layout as it is"),
        (
            ["draw", LAYOUT, "--access", "16"],
            "--access counts bytes: it needs the elements' width (--banks)",
            "draw a layout as it is",
        ),
        (["draw", LAYOUT, "--banks", "0"], "an element has at least one bit", "draw a layout as it is"),
        (["draw", LAYOUT, "--tile", "16"], "--tile 16 is not a pair of extents", "draw a layout as it is"),
        (
            ["draw", LAYOUT, "--banks", "16", "--memory", "16"],
            "--banks and --memory are different pictures",
            "draw a layout as it is",
        ),
        (
            ["draw", LAYOUT, "--atoms", "2x1x1"],
            "--atoms is for MMA atoms, and '(8,8):(1,8)' is not an MMA atom",
            "draw a layout as it is",
        ),
        (["decode", "word", "1"], "there is no word called 'word'", "use one of wgmma-desc, umma-desc, idesc"),
        (["decode", "idesc", "1"], "what the bits of an idesc mean depends on the kind", "add --kind f16 |"),
        (["decode", "idesc", "1", "--kind", "f15"], "there is no kind 'f15'", "did you mean f16?"),
        (["decode", "wgmma-desc", "1", "--kind", "f16"], "a wgmma-desc has no kind", "leave --kind out"),
        (
            ["decode", "wgmma-desc", "1", "2", "3"],
            "3 numbers do not make 64 bits",
            "give one number, or pieces of one size, lowest first",
        ),
        (["decode", "wgmma-desc", "x"], "'x' is not a number", "write the word as 1024 or 0x400"),
        (
            ["decode", "wgmma-desc", "1", str(1 << 32)],
            "4294967296 is not a number of 32 bits",
            "2 numbers have 32 bits each",
        ),
        (["encode", "wgmma-desc", "swizzle"], "'swizzle' has no value", "write it as FIELD=VALUE"),
        (
            ["encode", "tensor-map", "global_dim=(64,64)"],
            "'(64' is not a number",
            "write global_dim as 64,128: numbers with commas alone between them",
        ),
        (["encode", "idesc", "--kind", "f16", "a=f15"], "a = 'f15' is not an element type", "write it as in a=bf16"),
    ],
)
def test_what_is_wrong_and_what_to_write(
    command: list[str], problem: str, fix: str, folder: Path, capsys: Printed
) -> None:
    assert main(command) == 2
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first.partition("]: ")[2] == problem
    assert second.strip().startswith(f"fix: {fix}")


def test_only_ordinary_code_of_ptx_is_said_to_have_no_row(capsys: Printed) -> None:
    for spelling in ("add.z32", "wgmma.fence.aligned"):
        assert main(["explain", spelling]) == 2
        assert "has no row" not in capsys.readouterr().err


def test_a_file_of_a_commit_needs_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "empty.py"
    with pytest.raises(Exception, match=r"git rev-parse fails in .*: fatal: not a git repository") as caught:
        file_in("HEAD", file).__enter__()
    assert "fix: name a commit that git knows" in str(caught.value)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(Exception, match="git does not run: No such file or directory") as caught:
        file_in("HEAD", file).__enter__()
    assert "fix: install git, or compare targets and constants" in str(caught.value)
