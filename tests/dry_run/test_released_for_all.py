"""A stage that one thread gives back for its warpgroup, while others still read it: the fix, and that it is one."""

from __future__ import annotations

from pathlib import Path

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.layout import make_layout

ROW = 128


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers), min_ctas=1)
def turned(
    k: nvb.KernelBuilder,
    x: nvb.Pointer[f32],
    y: nvb.Pointer[f32],
    rows: i32,
    *,
    consumers: int = 1,
    meet: str = "",
    by: str = "warpgroup",
    kept: int = 0,
) -> None:
    """Rows of `x` from their end, by loads of all threads of the consumers."""
    ring = k.pipeline(3, consumers, released_by=by, row=(f32, make_layout(ROW)))
    k.mbarrier.ready()
    with k.producer(registers=40), k.range(rows) as row, ring.fill() as stage:
        k.bulk.load(stage.row.address, x + row * ROW, 4 * ROW, stage.full)
    with k.consumers(registers=120) as warpgroup:
        thread = k.thread_id() % 128
        with k.range(rows) as row, ring.drain(in_flight=kept) as stage:
            y[(warpgroup * rows + row) * ROW + 127 - thread] = stage.row.at(thread)[0]
            if meet == "warpgroup":
                k.barrier.sync(1 + warpgroup, 128)
            elif meet == "warp":
                k.warp.sync()
        if kept:
            ring.release()


@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("meet", ["", "warp"])
@pytest.mark.parametrize("kept", [0, 1])
def test_the_fix_names_the_block_and_both_ways_out(consumers, meet, kept):
    with pytest.raises(nvb.DiagnosticError) as refused:
        turned.build(consumers=consumers, meet=meet, kept=kept)
    found = refused.value.diagnostics[0]
    assert found.rule_id == "proxy.refill"
    lines = Path(__file__).read_text().splitlines()
    drain = 1 + next(at for at, text in enumerate(lines) if "ring.drain(in_flight=kept)" in text)
    assert found.fix == (
        f"end the block of line {drain} with k.barrier.sync(number, 128), another number for each warpgroup, of which "
        'one thread releases the stage; or let each thread release it: k.pipeline(..., released_by="thread")'
    )


@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("fixed", [{"meet": "warpgroup"}, {"by": "thread"}], ids=str)
@pytest.mark.parametrize("kept", [0, 1])
def test_either_way_out_is_one(consumers, fixed, kept):
    assert turned.build(consumers=consumers, kept=kept, **fixed).diagnostics == ()
