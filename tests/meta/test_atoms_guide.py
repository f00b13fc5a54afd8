"""The guide to MMA atoms: its Python, run block by block in one namespace."""

from __future__ import annotations

from tests.meta.test_guide import BLOCK
from tests.support.process import ROOT, python_output

GUIDE = ROOT / "docs" / "atoms.md"


def test_the_guide_to_atoms_runs() -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) == 6
    said = python_output("\n".join(blocks)).splitlines()
    assert said[0] == "((_4,_8),(_2,_2,_2)):((_32,_1),(_16,_8,_128))"
    assert "((_4,_8,_4),(_2,_2,_8)):((_128,_1,_16),(_64,_8,_512))" in said
    errors = [line.partition("]")[0] for line in said if line.startswith("error[")]
    assert errors == ["error[atom.target", "error[atom.shape", "error[atom.residency"]
    assert {"(16, 8, 8) (16, 8, 16)", "(64, 256, 16)"} <= {*said}, "the largest products"
    selected = [
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster",
        "tcgen05.mma.cta_group::2.kind::f16",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
        "wmma.load.a.sync.aligned.row.m16n16k16.f16",
    ]
    assert said[-len(selected) :] == selected
