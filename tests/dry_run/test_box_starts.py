"""Boxes of TMA that begin within 16 bytes of the innermost dimension: seen where a loop counts the coordinate."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f16, i32
from tests.dry_run.kernels.parts import COUNT, MATRIX, TILE
from tests.dry_run.refusals import refusals

RULE = "tma.start"
PLAIN = nvb.TensorMap(f16, box=(64, 64), swizzle=0)


def _column(k, step, column, by, first):
    """The innermost coordinate of a step."""
    return {
        "tiles": step * 64,
        "step": step,
        "half a chunk": step * 64 + (step & 1) * 4,
        "variable": column,
        "two columns": column,
        "parameter": step * 64 + first,
        "block": k.block_id() * 4,
    }[by]


@nvb.kernel("sm_90a", threads=128)
def copied(k, x: MATRIX, y: MATRIX, first: i32, steps: COUNT, *, by="tiles"):
    """Tile after tile is loaded, and stored in the same place."""
    tile, full = k.shared_tile(TILE, name="tile"), k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.one_thread():
        column = k.var(0)
        with k.range(steps, name="step") as step:
            here = _column(k, step, column, by, first)
            k.mbarrier.arrive(full, expect_tx=TILE.bytes)
            k.tma.load(tile, x, (0, here), full)
            k.mbarrier.wait(full, step & 1)
            k.tma.store(y, (0, step * 64), tile)
            k.tma.commit_group()
            k.tma.wait_group(0)
            column += 2 if by == "two columns" else 64


@pytest.mark.parametrize("by", ["tiles", "variable", "parameter"])
def test_whole_tiles_and_what_a_parameter_decides_are_not_refused(by: str) -> None:
    """The author may promise that a parameter is a multiple of eight elements."""
    assert refusals(copied, by=by) == []


@pytest.mark.parametrize(
    ("by", "when", "element", "bytes"),
    [
        ("step", "in round 1 of step, ", 1, 2),
        ("half a chunk", "in round 1 of step, ", 68, 8),
        ("two columns", "in round 1 of step, ", 2, 4),
        ("block", "in round 0 of step, ", 4, 8),
    ],
)
def test_a_counted_column_that_is_no_multiple_of_16_bytes_is_refused(by: str, when: str, element: int, bytes: int):
    with pytest.raises(nvb.DiagnosticError) as caught:
        copied.build(by=by, check=True)
    (found,) = caught.value.diagnostics
    said = f"{when}cp.async.bulk.tensor of warp 0 starts its box at element {element} of the innermost dimension, "
    assert (found.rule_id, found.message) == (RULE, f"{said}{bytes} bytes after a multiple of 16 bytes")
    assert "i * 64 where the box is 64 elements wide" in found.fix
    assert found.location is not None
    assert "k.tma.load(tile, x" in found.location.source


@nvb.kernel("sm_90a", threads=64)
def stored(k, y: PLAIN, steps: COUNT, *, multiple=1):
    """One tile is stored again and again: the coordinate is given innermost first."""
    tile = k.shared(f16, 64 * 64, align=128, name="tile")
    with k.range(64) as row:
        tile[row * 64 + k.thread_id()] = 0.0
    k.fence.proxy_async()
    k.barrier.sync()
    with k.one_thread(), k.range(steps, name="step") as step:
        k.tma.store_box(y, (step * multiple, 0), tile)
        k.tma.commit_group()
        k.tma.wait_group(0)


@pytest.mark.parametrize(("multiple", "wrong"), [(1, True), (4, True), (8, False), (64, False)])
def test_stores_are_judged_too(multiple: int, wrong: bool) -> None:
    assert refusals(stored, multiple=multiple) == [RULE] * wrong


@pytest.mark.parametrize(("first", "wrong"), [(8, False), (4, True)])
def test_the_authors_own_number_counts(first: int, wrong: bool) -> None:
    found = []
    try:
        copied.build(by="parameter", check=[{"first": first, "steps": 3}])
    except nvb.DiagnosticError as error:
        found = [one.rule_id for one in error.diagnostics]
    assert found == [RULE] * wrong
