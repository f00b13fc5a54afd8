"""docs/calls.md: its examples run, in one process, compare with NumPy and print what their comments say."""

from __future__ import annotations

from pathlib import Path

from tests.meta.test_guide import BLOCK, run
from tests.meta.test_tiled_guide import PRINTED
from tests.support.process import ROOT

PAGE = (ROOT / "docs" / "calls.md").read_text(encoding="utf-8")


def test_the_page_of_calls_runs(tmp_path: Path) -> None:
    code = "\n".join(BLOCK.findall(PAGE))
    done = run(tmp_path, code)
    assert done.stderr == ""
    assert done.stdout.splitlines() == PRINTED.findall(code)
