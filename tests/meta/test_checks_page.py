"""docs/checks.md: its kernel is clean, and its mistake draws what the page prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meta.test_guide import BLOCK, MISTAKE, Step, diagnosed, run
from tests.support.process import ROOT

PAGE = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def step() -> Step:
    (program,) = BLOCK.findall(PAGE)
    ((change, said),) = MISTAKE.findall(PAGE)
    return Step("the dry run", program, change, said)


def test_the_kernel_is_clean(step: Step, tmp_path: Path) -> None:
    done = run(tmp_path, step.program)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_mistake_draws_what_the_page_prints(step: Step, tmp_path: Path) -> None:
    assert diagnosed(tmp_path, step) == step.said
