"""Random command lines: output and exit status 0, or a diagnostic on stderr and exit status 2."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from nvbackend.cli.program import FAILED, main
from tests.support.fuzz import Attempts
from tests.support.random_text import text_like

COUNT = 100
LONG_COUNT = 3000
WHAT = (
    *("(_8,_64):(_64,_1)", "((_8,_2),_4):((_1,_32),_8)", "Sw<3,4,3> o smem_ptr o (_8,_64):(_64,_1)", "_32:_1"),
    *("SM80_16x8x16_F32F16F16F32_TN", "SM90_64x64x16_F16F16F16_SS<Major::K, Major::K>", "SM70_8x8x4_F32F16F16F32_TN"),
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
)
NUMBERS = ("8", "16", "32", "64", "128", "0", "-1", "1e3", "x", "9" * 30, "", "1000000")
OPTIONS = {
    "draw": {
        "--operand": ("a", "b", "C", "d", "E", "", "x"),
        "--tile": ("64x64", "8x4", "0x1", "x", "9999999x99999999", "16x8"),
        "--banks": NUMBERS,
        "--memory": NUMBERS,
        "--access": NUMBERS,
        "--atoms": ("1x1x1", "2x2x1", "0x1x1", "1000x1000x1000", "x"),
        "--by": ("warp", "warpgroup", "thread", ""),
        "-o": ("out.svg", "missing/out.svg", ".", ""),
    },
    "explain": {"--target": ("sm_90a", "sm_100f", "sm_9", "")},
    "catalogue": {
        "--family": ("wgmma", "sync", "cp_async", "wgmm", ""),
        "--target": ("sm_90a", "sm_70", "sm_9", ""),
        "--json": (),
    },
    "targets": {"--json": (), "--bogus": ("x",)},
}


def command_line(rng: random.Random) -> list[str]:
    """A command with some of its options, now and then with those of another, or with none."""
    command = rng.choice(("draw", "draw", "draw", "draw", "targets", "explain", "catalogue"))
    line = [command if rng.random() < 0.97 else text_like(rng, ("draw", "targets"))]
    if command == "catalogue":
        line += ["--family", text_like(rng, ("cluster", "launch_control", "register_budget"))]
    if command in ("draw", "explain") and rng.random() < 0.95:
        line.append(text_like(rng, WHAT if command == "draw" else WHAT[-1:]))
    options = OPTIONS[command if rng.random() < 0.9 else rng.choice(list(OPTIONS))]
    for option in rng.sample(list(options), min(len(options), rng.choice((0, 0, 1, 1, 2, 3)))):
        values = options[option]
        line += [option, *([rng.choice(values)] if values and rng.random() < 0.95 else [])]
    return line


def run(seed: int, count: int, capsys: pytest.CaptureFixture[str]) -> tuple[Attempts, list[int]]:
    attempts, statuses = Attempts(random.Random(seed)), []
    for _ in range(count):
        line = command_line(attempts.rng)
        if any(word in ("-h", "--help") for word in line):
            continue
        status = attempts.attempt(main, line)
        said = capsys.readouterr()
        statuses.append(status)
        if status == 0 and not said.out:
            attempts.failures[str(line)] = "it printed nothing"
        if status == FAILED and not says_why(said.out if "--json" in line else said.err, "--json" in line):
            attempts.failures[str(line)] = f"it failed without a diagnostic: {said.out:.300}{said.err:.300}"
    return attempts, statuses


def says_why(text: str, as_json: bool) -> bool:
    """Whether a failed command printed a diagnostic with its fix."""
    if not as_json:
        return "error[" in text and "fix:" in text
    errors = json.loads(text)["errors"]
    return bool(errors) and all(error["rule"] and error["fix"] for error in errors)


def assert_kept(attempts: Attempts, statuses: list[int]) -> None:
    assert attempts.failures == {}
    assert set(statuses) == {0, FAILED}
    assert statuses.count(0) > len(statuses) // 20


def test_random_command_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_kept(*run(1, COUNT, capsys))
    assert {path.name for path in tmp_path.iterdir()} <= {"out.svg"}


@pytest.mark.exhaustive(seconds=60)
@pytest.mark.parametrize("seed", range(2, 8))
def test_more_random_command_lines(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_kept(*run(seed, LONG_COUNT // 6, capsys))


@pytest.mark.parametrize("line", [["lint"], ["simulate"], ["build"], ["explain"], ["decode"], ["encode"], ["draw"]])
@pytest.mark.parametrize("name", ["a\0b", "", "\ud800", "x" * 5000, ".", "\x1b[2J"])
def test_names_that_no_file_has(
    line: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*line, name]) == FAILED
    assert says_why(capsys.readouterr().err, as_json=False)


_BEGIN = b".version 8.0\n.target sm_90\n.visible .entry k(){ "
CONTENTS = {
    "empty": b"",
    "zeros": b"\0\0",
    "no text": b"\xff\xfe\x00",
    "an ELF header alone": b"\x7fELF\x00",
    "a number of thousands of digits": _BEGIN + b"add.s32 %r1, %r2, " + b"9" * 5000 + b"; }",
    "no end": _BEGIN + b"{" * 5000,
}


@pytest.mark.parametrize("command", ["lint", "simulate"])
@pytest.mark.parametrize("content", CONTENTS)
def test_contents_that_no_compiler_writes(
    command: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ptx").write_bytes(CONTENTS[content])
    assert main([command, "k.ptx"]) == FAILED
    assert says_why(capsys.readouterr().err, as_json=False)
