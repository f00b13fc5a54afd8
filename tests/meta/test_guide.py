"""The guide: every step is a program, every mistake draws what the page prints, and the rest runs block by block."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.process import ROOT, run_here
from tests.support.rule_catalogue import declared_rules

GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^## \d\. (.*?)\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
MISTAKE = re.compile(r"^```diff\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = "step.py"
CITED = re.compile(r"docs/(\w+\.md), ([^;,]+)")
"""In a rule's reference, a page and the part of it."""


@dataclass(frozen=True)
class Step:
    """A program of the guide; the lines that make it wrong, each with what comes instead; and what is said of that."""

    title: str
    program: str
    change: str
    said: str

    def wrong(self) -> str:
        """The program with the mistake."""
        old = "".join(line[1:] for line in self.change.splitlines(keepends=True) if line.startswith("-"))
        new = "".join(line[1:] for line in self.change.splitlines(keepends=True) if line.startswith("+"))
        assert self.program.count(old) == 1, f"{self.title}: the program has no lines\n{old}"
        return self.program.replace(old, new)

    def __str__(self) -> str:
        return self.title


def _step(title: str, text: str) -> Step:
    (program,) = BLOCK.findall(text)
    ((change, said),) = MISTAKE.findall(text)
    return Step(title, program, change, said)


STEPS = [_step(title, text) for title, text in STEP.findall(GUIDE)]


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """The program as a file of its own."""
    file = folder / FILE
    file.write_text(program, encoding="utf-8")
    return run_here(file)


def diagnosed(folder: Path, step: Step) -> str:
    """The diagnostic of the wrong program, without the traceback."""
    done = run(folder, step.wrong())
    assert done.returncode == 1, done.stdout
    return done.stderr.replace(f"{folder}/", "").partition("nvbackend.DiagnosticError: ")[2]


def test_the_guide_leads_to_the_hopper_gemm() -> None:
    assert len(STEPS) == 8
    sample = (ROOT / "samples" / "hopper_gemm.py").read_text(encoding="utf-8")
    kernel = sample[sample.index("\nTILE_M") : sample.index("\n\n\ndef launch")]
    assert kernel in STEPS[-1].program


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_step_is_assembled_or_launched(step: Step, tmp_path: Path) -> None:
    done = run(tmp_path, step.program)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\w+(, in the simulator \(.*\))?: equal to NumPy\n", done.stdout)


@pytest.mark.exhaustive(seconds=8)
def test_a_type_checker_takes_the_steps(tmp_path: Path) -> None:
    files = [f"step{number}.py" for number, _ in enumerate(STEPS)]
    for name, step in zip(files, STEPS, strict=True):
        (tmp_path / name).write_text(step.program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", *files]
    environment = {"MYPYPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == f"Success: no issues found in {len(files)} source files\n"


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_step_computes_what_numpy_does(step: Step, tmp_path: Path) -> None:
    done = run(tmp_path, step.program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(": equal to NumPy\n")


@pytest.mark.gpu((9, 0))
def test_ping_pong_consumers_compute_what_numpy_does(tmp_path: Path) -> None:
    program, *_ = BLOCK.findall(GUIDE[GUIDE.index("\n## Ping-pong consumers\n") :])
    done = run(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "pingpong: equal to NumPy\n"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_mistake_draws_what_the_guide_prints(step: Step, tmp_path: Path) -> None:
    assert diagnosed(tmp_path, step) == step.said


def test_rules_refer_to_parts_of_pages_that_exist() -> None:
    cited = {place for one in declared_rules() for place in CITED.findall(one.rule.reference)}
    assert ("guide.md", "Values and variables") in cited
    headings = {
        (page.name, re.sub(r"^\d\. ", "", heading))
        for page in (ROOT / "docs").glob("*.md")
        for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert cited - headings == set()


def test_the_rest_of_the_guide_runs(tmp_path: Path) -> None:
    blocks = BLOCK.findall(GUIDE[GUIDE.index("\n## Values and variables") :])
    assert len(blocks) > 3
    done = run(tmp_path, "\n".join(blocks))
    assert done.returncode == 0, done.stderr
    assert ".entry twice" in done.stdout
