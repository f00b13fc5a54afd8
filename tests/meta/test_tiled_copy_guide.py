"""The guide to tiled copies: its Python, run block by block in one namespace."""

from __future__ import annotations

from tests.meta.test_guide import BLOCK
from tests.support.process import ROOT, python_output

GUIDE = ROOT / "docs" / "tiled.md"


def test_the_guide_to_tiled_copies_runs() -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert blocks
    said = python_output("\n".join(blocks)).splitlines()
    assert "SM75_U32x4_LDSM_N ldmatrix.sync.aligned.m8n8.x4.shared.b16" in said
    assert "((_8,_16),_8):((_128,_1),_16) (16, 64)" in said
    assert "Sw<3,3,3> o _0 o ((_8,_1),_2,_4):((_1,_0),_2048,_16) from 1344" in said
    assert "((_8,_1),_2,_4):((_1,_0),_32,_8)" in said
    assert "(64, 64) 128 4" in said
