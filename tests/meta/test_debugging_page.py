"""The page about what to do when something is wrong: its Python, run as one program, prints what its comments say."""

from __future__ import annotations

from pathlib import Path

from tests.meta.test_guide import BLOCK, run
from tests.meta.test_tiled_guide import PRINTED
from tests.support.process import ROOT

PAGE = ROOT / "docs" / "debugging.md"


def test_the_page_runs(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 6
    code = "\n".join(blocks)
    done = run(tmp_path, code)
    assert done.stderr == ""
    assert done.stdout.splitlines() == PRINTED.findall(code)
