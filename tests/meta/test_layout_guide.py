"""The guide to layouts: its Python, run block by block in one namespace."""

from __future__ import annotations

from tests.meta.test_guide import BLOCK
from tests.support.process import ROOT, python_output

GUIDE = ROOT / "docs" / "layout.md"


def test_the_guide_to_layouts_runs() -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) == 6
    said = python_output("\n".join(blocks))
    assert "error[layout-algebra.carry]" in said
    assert "its modes together reach index 5 of a mode of 4 elements" in said
    assert "Sw<3,4,3> o smem_ptr o ((_64,_2),(_8,_8),_3):((_1,_512),(_64,_1024),_8192)" in said.splitlines()
