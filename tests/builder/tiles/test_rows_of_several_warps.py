"""Rows of a tile that several warps share: who must come to the barrier, and the shared memory that it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, f32

MMA = nvb.mma.sync("m16n8k16", f16, f16, f32)


def built(threads: int, atoms: tuple[int, int, int], tile: tuple[int, int], **how: Any) -> nvb.Kernel:
    """A kernel of so many threads, of which those of the tile's warps add up its rows."""
    warps = atoms[0] * atoms[1]

    @nvb.kernel("sm_80", threads=threads)
    def summed(k: Any, out: nvb.Pointer[f32]) -> None:
        of = k.tiled_mma(MMA, atom_layout=atoms, tile=tile).accumulator().elements()
        with k.if_(k.warp_id() < warps):
            sums = of.map(lambda _: k.const(1.0, f32)).reduce_rows("add", **how)
            with k.if_(sums.owned()):
                for at, value in sums.items():
                    out[at] = value

    return summed.build()


@pytest.mark.parametrize("atoms", [(1, 4, 1), (2, 2, 1)])
@pytest.mark.parametrize("barrier", [None, 3])
@pytest.mark.parametrize("threads", [128, 160])
def test_a_part_of_the_cta_needs_a_barrier_of_its_own(
    threads: int, barrier: int | None, atoms: tuple[int, int, int]
) -> None:
    """All threads may have one, too."""
    how = {} if barrier is None else {"barrier": barrier}
    if threads == 160 and barrier is None:
        with pytest.raises(DiagnosticError) as caught:
            built(threads, atoms, (32, 64))
        assert [found.rule_id for found in caught.value.diagnostics] == ["cta.group"]
    else:
        ptx = built(threads, atoms, (32, 64), **how).compile(assemble=False).ptx
        assert ("barrier.sync" in ptx or "bar.sync" in ptx) is True
        assert (f"\tbar.sync \t{barrier}" in ptx or f"barrier.sync.aligned \t{barrier}" in ptx) or barrier is None


@pytest.mark.parametrize(
    ("atoms", "tile"), [((1, 4, 1), (16, 64)), ((1, 4, 1), (32, 64)), ((2, 2, 1), (64, 32)), ((1, 2, 1), (48, 48))]
)
def test_each_warp_has_a_cell_for_each_row(atoms: tuple[int, int, int], tile: tuple[int, int]) -> None:
    machine = built(32 * atoms[0] * atoms[1], atoms, tile).machine
    areas = {touch.object for instr in machine.instructions() for touch in instr.memory}
    assert [area.bytes for area in areas if area.name.endswith("_area")] == [atoms[1] * tile[0] * 4]


def test_each_of_several_groups_has_a_part_of_the_memory() -> None:
    @nvb.kernel("sm_80", threads=384)
    def beside(k: Any, out: nvb.Pointer[f32]) -> None:
        of, group = k.tiled_mma(MMA, atom_layout=(1, 4, 1), tile=(16, 32)).accumulator().elements(), k.warpgroup_id()
        value = (group * 7 + 1).to(f32)
        sums = of.map(lambda _: value).reduce_rows("add", barrier=group + 1)
        with k.if_(sums.owned()):
            for at, total in sums.items():
                out[at + 16 * group] = total

    built, got = beside.build(), np.zeros((3, 16), np.float32)
    nvb.runtime.load(built.compile(assemble=False), device="simulator").launch(1, got)
    assert got.tolist() == [[32.0 * (7 * group + 1)] * 16 for group in range(3)]
    touched = {(touch.object.bytes, touch.symbol) for instr in built.machine.instructions() for touch in instr.memory}
    assert {size for size, _ in touched} == {3 * 4 * 16 * 4}
    assert all("*256" in symbol for _, symbol in touched)
