"""docs/divergences.md: every row has commands that can be run, and they show what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import ROOT
from tests.support.ptxas import ptxas

TEXT = (ROOT / "docs" / "divergences.md").read_text(encoding="utf-8")
FUNCTIONS = "\n".join(re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
NAMES = re.findall(r"^(\w+)\(\) \{", FUNCTIONS, re.MULTILINE)
_HEADERS = ("| claim |", "| --- |")


def _cells(line: str) -> list[str]:
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


ROWS = [_cells(line) for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith(_HEADERS)]
_PROGRAMS = "|".join([*NAMES, "python", "pytest"])
_COMMAND = re.compile(rf"`((?:{_PROGRAMS}) [^`]+)`(?: (is accepted|is refused|prints `[^`]+`))?")
COMMANDS = [found for row in ROWS for found in _COMMAND.findall(row[2])]
SHELL = [(command, said) for command, said in COMMANDS if command.split()[0] in NAMES]
PYTHON = [(command, said) for command, said in COMMANDS if command.startswith("python ")]
TESTS = [command for command, _ in COMMANDS if command.startswith("pytest ")]


def run(command: str) -> subprocess.CompletedProcess[str]:
    folders = [str(Path(sys.executable).parent), str(Path(ptxas("sm_90a")).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(folders), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-c", f"{FUNCTIONS}\n{command}"], env=environment, capture_output=True, text=True, check=False
    )


def test_rows_have_a_claim_evidence_a_command_and_what_is_done() -> None:
    commands = [command for command, _ in COMMANDS]
    complete = [len(row) == 4 and all(row) and any(command in row[2] for command in commands) for row in ROWS]
    assert [row[0] for row, whole in zip(ROWS, complete, strict=True) if not whole] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("command", "said"), SHELL, ids=[command[:100] for command, _ in SHELL])
def test_a_command_shows_what_the_row_says(command: str, said: str, tmp_path: Path) -> None:
    done = run(f"cd {tmp_path}; {command}")
    if said.startswith("prints"):
        assert done.stdout == said.removeprefix("prints `").removesuffix("`") + "\n"
        return
    assert said in ("is accepted", "is refused"), said
    taken = done.returncode == 0 and done.stdout.endswith("accepted\n")
    assert taken == (said == "is accepted"), done.stderr
    assert taken or "error" in done.stderr


@pytest.mark.parametrize(("command", "said"), PYTHON, ids=[command[:100] for command, _ in PYTHON])
def test_a_line_of_python_runs(command: str, said: str) -> None:
    done = run(command)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if said:
        assert said == f"prints `{done.stdout.strip()}`"


def test_tests_that_are_named_are_there() -> None:
    missing = []
    for command in TESTS:
        place, _, word = command.removeprefix("pytest ").partition(" -k ")
        named = ROOT / place
        files = [named] if named.is_file() else sorted(named.glob("test_*.py"))
        read_by = _read_by(named) if word and files else []
        texts = [file.read_text(encoding="utf-8") for file in [*files, *read_by]]
        missing += [] if files and word in "".join(texts) else [command]
    assert missing == []


def _read_by(place: Path) -> list[Path]:
    """The modules of tests.support, or the registry's programs, that a test file takes its cases from."""
    text = place.read_text(encoding="utf-8")
    names = re.findall(r"^from tests\.support\.(\w+) import", text, re.MULTILINE)
    programs = (ROOT / "tests/rules/programs").glob("*.py") if "from tests.rules.registry import" in text else ()
    return [*(ROOT / "tests" / "support" / f"{name}.py" for name in names), *sorted(programs)]
