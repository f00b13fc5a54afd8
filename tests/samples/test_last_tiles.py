"""The last tiles of a GEMM end with the matrix: TMA takes longer for rows outside of it."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import i32
from nvbackend.simulator.calls.copies.tma import _Box
from samples.gemm.deep import Deep
from samples.gemm.forms import problem_for
from samples.gemm.thin import Thin
from samples.gemm.wide import Wide, begin
from samples.program import Device


@nvb.kernel("sm_90a", threads=32)
def firsts(k: nvb.KernelBuilder, out: nvb.Pointer[i32], end: i32) -> None:
    out[k.thread_id()] = begin(k, k.thread_id(), 64, end)


@pytest.mark.parametrize(
    ("end", "expected"), [(8, [0, 0, 0]), (64, [0, 0, 0]), (65, [0, 1, 1]), (128, [0, 64, 64]), (200, [0, 64, 128])]
)
def test_where_a_tile_begins(end: int, expected: list[int]) -> None:
    found = np.zeros(32, np.int32)
    nvb.runtime.load(firsts.compile(assemble=False), device="simulator").launch(1, found, end)
    assert found[:3].tolist() == expected


@pytest.mark.parametrize(
    "one", [Wide(64, 1, 1, 2), Wide(64, 1, 2, 2), Thin(16, 1, 2, 4), Deep(64, 1, 2, 3)], ids=lambda one: repr(one)[:12]
)
def test_no_box_has_rows_outside_of_a_matrix(one: Wide | Thin | Deep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of operands and results whose rows are no fewer than those of a tile, and no multiple of them."""
    at, ends = _Box.at, list[tuple[int, int]]()

    def noted(*given: object) -> object:
        found = at(*given)  # type: ignore[arg-type]
        ends.extend((first[1] + each.box[1], each.extents[1]) for each, first in found)
        return found

    monkeypatch.setattr(_Box, "at", noted)
    m, n = (16, 136) if isinstance(one, Thin) else (136, 136)
    problem = problem_for(one.for_depth(64) if isinstance(one, Wide) else one, m, n, 64)
    compiled = problem.kernel.compile(assemble=False, check=False)
    assert problem.error(compiled, Device("a test")) < problem.tolerance
    assert len(ends) > 3
    assert all(end <= extent for end, extent in ends)
