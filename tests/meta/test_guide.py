"""The guide's Python, run block by block in one namespace."""

from __future__ import annotations

import re

from tests.support.process import ROOT, python_output

GUIDE = ROOT / "docs" / "guide.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_guide_runs() -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) == 7
    said = python_output("\n".join(blocks))
    assert ".entry own" in said
    assert "error[wgmma.read-in-flight]" in said
    assert "wait_group 1 leaves group 1, which wrote acc, in flight" in said
