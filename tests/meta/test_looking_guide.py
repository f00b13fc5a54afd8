"""The page about looking at kernels and keeping them: its Python, run as one program, prints what its comments say."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.meta.test_guide import BLOCK, run
from tests.meta.test_tiled_guide import PRINTED
from tests.support.process import ROOT

PAGE = ROOT / "docs" / "looking.md"


def test_the_page_runs(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 2
    code = "\n".join((f"scratch = {str(tmp_path)!r}", *blocks))
    done = run(tmp_path, code)
    assert done.stderr == ""
    assert done.stdout.splitlines() == PRINTED.findall(code)


def test_what_it_calls_it_calls_on_a_machine_with_a_gpu_too() -> None:
    """Handlers of what fails without one call nothing: tests/meta/test_examples.py asks for each call on both."""
    tree = ast.parse("\n".join(BLOCK.findall(PAGE.read_text(encoding="utf-8"))))
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    called = [ast.unparse(node) for one in handlers for node in ast.walk(one) if isinstance(node, ast.Call)]
    assert handlers and called == []
