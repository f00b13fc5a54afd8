"""The page for authors of compilers: its blocks run in their order, and print what it says."""

from __future__ import annotations

from pathlib import Path

from tests.meta.test_guide import BLOCK, run
from tests.meta.test_tiled_guide import PRINTED
from tests.support.process import ROOT


def test_the_blocks_run_and_print_what_they_say(tmp_path: Path) -> None:
    code = "\n".join(BLOCK.findall((ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")))
    done = run(tmp_path, code)
    assert done.stderr == ""
    assert done.stdout.splitlines() == PRINTED.findall(code)
