"""Numbers that one thread stores to shared memory as a vector, and others load: they are known as single ones are."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f32, i32

CHUNKS = nvb.Pointer(f32, align=16)
NUMBERS = nvb.Pointer(i32)
BOXES = 2


@nvb.kernel("sm_90a", threads=256)
def mailed(
    k, x: CHUNKS, y: CHUNKS, lengths: NUMBERS, counter: NUMBERS, tiles: i32(minimum=1),
    *, words: int = 4, more: int = 0,
):  # fmt: skip
    """The mail says whether there is a tile, where its length is and how long it is, as vectors of so many words.

    The consumers drain `more` chunks than that.
    """
    ring = k.pipeline(2, consumers=1, row=(f32, 128))
    mail, turn = k.shared(i32, BOXES * 4, name="mail"), k.var(0, i32)
    posted = k.mbarrier.array(BOXES, arrivals=1, name="posted")
    taken = k.mbarrier.array(BOXES, arrivals=128, name="taken")
    k.mbarrier.ready()
    with k.producer(40):
        tile = k.var(k.block_id(), i32)
        with k.loop():
            box, length = turn % BOXES, lengths[k.math.min(tile, tiles - 1)]
            k.mbarrier.wait(taken + box, turn // BOXES % 2 ^ 1)
            parts = [k.select(tile >= tiles, 1, 0), tile.value, length, k.const(7, i32)]
            for at in range(0, 4, words):
                (mail + (box * 4 + at)).store(*parts[at : at + words])
            k.mbarrier.arrive(posted + box)
            k.break_if(tile >= tiles)
            following = k.atomic.add(counter, 1) + k.block_count().to(i32)
            with k.range(length), ring.fill() as stage:
                k.bulk.load(stage.row, x, 512, stage.full)
            tile.set(following)
            turn += 1
    with k.consumers(232):
        sum_ = k.var(0.0, f32)
        with k.loop():
            box = turn % BOXES
            k.mbarrier.wait(posted + box, turn // BOXES % 2)
            last, _, length, _ = (
                part for at in range(0, 4, words) for part in (mail + (box * 4 + at)).load(words)
            )  # fmt: skip
            k.mbarrier.arrive(taken + box)
            k.break_if(last != 0)
            with k.range(length + more), ring.drain() as stage:
                sum_ += stage.row[k.thread_id() - 128]
                k.barrier.sync(1, 128)
            turn += 1
        y[k.thread_id()] = sum_


@pytest.mark.parametrize("words", [1, 2, 4])
def test_the_same_rounds_draw_no_diagnostic(words: int) -> None:
    assert mailed.with_(words=words).build().diagnostics == ()


@pytest.mark.parametrize("words", [1, 2, 4])
def test_a_round_too_many_waits_forever(words: int) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        mailed.with_(words=words, more=1).build()
    assert {one.rule_id for one in caught.value.diagnostics} == {"mbarrier.deadlock"}
