"""The guide to MMA atoms: its Python, run block by block in one namespace."""

from __future__ import annotations

from tests.meta.test_guide import BLOCK
from tests.support.process import ROOT, python_output

GUIDE = ROOT / "docs" / "atoms.md"


def test_the_guide_to_atoms_runs() -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) == 3
    said = python_output("\n".join(blocks)).splitlines()
    assert said[0] == "((_4,_8),(_2,_2,_2)):((_32,_1),(_16,_8,_128))"
    assert "((_4,_8,_4),(_2,_2,_8)):((_128,_1,_16),(_64,_8,_512))" in said
    errors = [line.partition("]")[0] for line in said if line.startswith("error[")]
    assert errors == ["error[atom.target", "error[atom.shape", "error[atom.residency"]
