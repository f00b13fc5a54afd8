"""Rounds that two sides compute from the same numbers of memory: one too many is a deadlock, none is ever alleged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import i32
from samples.attention.choice import Form
from samples.attention.forward import kernel
from tests.corpus.mailboxes import CHUNKS, NUMBERS, Sides


def _one_loop(rounds: Callable[[Any, Any, Any], Any]) -> Callable[..., None]:
    def work(k: nvb.KernelBuilder, lengths: Any, tile: nvb.Value, step: Callable[[], None]) -> None:
        with k.range(rounds(k, lengths, tile)):
            step()

    return work


def _two_loops(k: nvb.KernelBuilder, lengths: Any, tile: nvb.Value, step: Callable[[], None]) -> None:
    for segment in range(2):
        with k.range(lengths[2 * tile + segment]):
            step()


def _in_pairs(k: nvb.KernelBuilder, lengths: Any, tile: nvb.Value, step: Callable[[], None], odd: int = 0) -> None:
    with k.range(lengths[tile] // 2):
        step()
        step()
    with k.if_(lengths[tile] % 2 == odd):
        step()


WRONG = {
    "a round more": (_one_loop(lambda _k, _n, tile: tile + 1), _one_loop(lambda _k, _n, tile: tile + 2)),
    "a round more than both": (_two_loops, _one_loop(lambda _, n, tile: n[2 * tile] + n[2 * tile + 1] + 1)),
    "a round more of one": (_one_loop(lambda _, n, tile: n[tile] * n[tile + 1]),
                            _one_loop(lambda _, n, tile: n[tile] * (n[tile + 1] + 1))),
    "one more where it is even": (_one_loop(lambda _, n, tile: n[tile]), _in_pairs),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_round_too_many_waits_forever(name: str) -> None:
    filling, using = WRONG[name]

    @nvb.kernel("sm_90", threads=160)
    def posted(k, x: CHUNKS, y: CHUNKS, lengths: NUMBERS, counter: NUMBERS, tiles: i32):
        sides = Sides(k, counter, tiles)
        sides.produce(x, lambda tile, step: filling(k, lengths, tile, step))
        sides.consume(y, lambda tile, step: using(k, lengths, tile, step))

    with pytest.raises(nvb.DiagnosticError) as caught:
        posted.build()
    assert {one.rule_id for one in caught.value.diagnostics} == {"mbarrier.deadlock"}


@nvb.kernel("sm_90", threads=160)
def posted_numbers(k, x: CHUNKS, y: CHUNKS, counter: NUMBERS, tiles: i32, *, late: bool = False):
    """Warp 4 draws numbers of tiles and ends with the first one that is no tile."""
    numbers, thread, turn = k.shared(i32, 2, name="numbers"), k.thread_id(), k.var(0, i32)
    posted = k.mbarrier.array(2, arrivals=1, name="posted")
    taken = k.mbarrier.array(2, arrivals=128, name="taken")
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 4), k.if_(thread == 128), k.loop():
        k.mbarrier.wait(taken + turn % 2, turn // 2 % 2 ^ 1)
        tile = k.atomic.add(counter, 1)
        numbers[turn % 2] = tile
        k.mbarrier.arrive(posted + turn % 2)
        k.break_if(tile >= tiles)
        turn.set(turn + 1)
    with k.if_(k.warp_id() < 4), k.loop():
        k.mbarrier.wait(posted + turn % 2, turn // 2 % 2)
        number = k.var(numbers[turn % 2])
        k.mbarrier.arrive(taken + turn % 2)
        k.break_if(number > tiles if late else number >= tiles)
        y[number * 128 + thread] = x[number * 128 + thread]
        turn.set(turn + 1)


def test_a_number_that_ends_one_side_alone_is_tried() -> None:
    """The first number that is no tile is their count: one side stops there, the other waits for the next number."""
    assert posted_numbers.build().diagnostics == ()
    with pytest.raises(nvb.DiagnosticError) as caught:
        posted_numbers.with_(late=True).build()
    assert [one.rule_id for one in caught.value.diagnostics] == ["mbarrier.deadlock"]


@pytest.mark.parametrize("parts", [2, 4])
def test_what_is_assumed_of_a_number_of_memory_holds(parts: int) -> None:
    @nvb.kernel("sm_90", threads=160)
    def whole(k, x: CHUNKS, y: CHUNKS, lengths: NUMBERS, counter: NUMBERS, tiles: i32):
        sides = Sides(k, counter, tiles)

        def one_by_one(tile: nvb.Value, step: Callable[[], None]) -> None:
            k.assume(lengths[tile] % parts == 0)
            with k.range(lengths[tile]):
                step()

        def several(tile: nvb.Value, step: Callable[[], None]) -> None:
            with k.range(lengths[tile] // parts):
                for _ in range(parts):
                    step()

        sides.produce(x, one_by_one)
        sides.consume(y, several)

    assert whole.build().diagnostics == ()


@pytest.mark.parametrize("block", [64, 128])
def test_causal_attention_of_any_form_is_right(block: int) -> None:
    assert kernel(Form(block=block, q_stages=1), 256 if block == 64 else 128, causal=True).build().diagnostics == ()
