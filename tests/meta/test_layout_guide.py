"""The guide to layouts: its Python, run block by block in one namespace."""

from __future__ import annotations

from nvbackend.layout.descriptors.operand import table
from tests.meta.test_guide import BLOCK
from tests.support.process import ROOT, python_output

GUIDE = ROOT / "docs" / "layout.md"


def test_the_guide_to_layouts_runs() -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) == 11
    said = python_output("\n".join(blocks))
    assert "error[layout-algebra.carry]" in said
    assert "its modes together reach index 5 of a mode of 4 elements" in said
    assert "GMMA::DescriptorIterator o (_1,_2,_4,_3):(_0,_64,_256,_1024)" in said.splitlines()
    assert "error[descriptor.core-matrix]" in said
    assert "error[tile.mma-atom]" in said
    assert "the rows of a core matrix lie 128 bytes apart, with no swizzle 16" in said
    assert "Sw<3,4,3> o smem_ptr o ((_64,_2),(_8,_8),_3):((_1,_512),(_64,_1024),_8192)" in said.splitlines()


def test_the_guide_has_the_table_of_what_a_descriptor_can_describe() -> None:
    """The document shows what the code derives descriptors by; `tests/layout/descriptors/test_descriptor.py` checks
    the forms."""
    assert f"\n\n{table()}\n\n" in GUIDE.read_text(encoding="utf-8")
