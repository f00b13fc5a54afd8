"""docs/porting.md: its kernels, run as one program, are equal to NumPy."""

from __future__ import annotations

from pathlib import Path

from tests.meta.test_guide import BLOCK, run
from tests.support.process import ROOT

PAGE = ROOT / "docs" / "porting.md"


def test_the_page_runs(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 3
    done = run(tmp_path, "\n".join(blocks))
    assert [line.partition(",")[0] for line in done.stdout.splitlines()] == ["tree", "add", "matmul"]
    assert all("equal to NumPy" in line for line in done.stdout.splitlines())
