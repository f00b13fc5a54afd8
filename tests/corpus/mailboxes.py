"""A producer that draws numbers of tiles and posts them in mailboxes: both sides compute the rounds of a tile from its
number and from memory, each in its own way."""

from __future__ import annotations

from collections.abc import Callable

import nvbackend as nvb
from nvbackend import f32, i32

CHUNKS = nvb.Pointer(f32, align=128)
NUMBERS = nvb.Pointer(i32)
STAGES, CHUNK, BOXES, CONSUMERS = 4, 128, 2, 128
Step = Callable[[], None]


class Sides:
    """The ring of chunks and the mailboxes. Warp 4 produces."""

    def __init__(
        self, k: nvb.KernelBuilder, counter: nvb.Address, tiles: nvb.Value, stages: int = STAGES
    ) -> None:  # fmt: skip
        self._k, self._counter, self._tiles, self._stages = k, counter, tiles, stages
        self._numbers = k.shared(i32, BOXES, name="numbers")
        self._chunks = k.shared(f32, self._stages * CHUNK, align=128, name="chunks")
        self._posted = k.mbarrier.array(BOXES, arrivals=1, name="posted")
        self._taken = k.mbarrier.array(BOXES, arrivals=CONSUMERS, name="taken")
        self._full = k.mbarrier.array(self._stages, arrivals=1, name="full")
        self._empty = k.mbarrier.array(self._stages, arrivals=CONSUMERS, name="empty")
        k.mbarrier.ready()

    def produce(self, x: nvb.Address, work: Callable[[nvb.Value, Step], None]) -> None:
        k, turn, at = self._k, self._k.var(0, i32), self._k.var(0, i32)

        def load() -> None:
            stage = at % self._stages
            k.mbarrier.wait(self._empty + stage, at // self._stages % 2 ^ 1)
            k.mbarrier.arrive(self._full + stage, expect_tx=4 * CHUNK)
            k.bulk.load(self._chunks + stage * CHUNK, x, 4 * CHUNK, self._full + stage)
            at.set(at + 1)

        with k.if_(k.warp_id() == CONSUMERS // 32), k.if_(k.thread_id() == CONSUMERS), k.loop():
            k.mbarrier.wait(self._taken + turn % BOXES, turn // BOXES % 2 ^ 1)
            tile = k.atomic.add(self._counter, 1)
            self._numbers[turn % BOXES] = tile
            k.mbarrier.arrive(self._posted + turn % BOXES)
            k.break_if(tile >= self._tiles)
            turn.set(turn + 1)
            work(tile, load)

    def consume(self, y: nvb.Address, work: Callable[[nvb.Value, Step], None]) -> None:
        k, turn, at, sum_ = self._k, self._k.var(0, i32), self._k.var(0, i32), self._k.var(0.0, f32)

        def use() -> None:
            stage = at % self._stages
            k.mbarrier.wait(self._full + stage, at // self._stages % 2)
            sum_.set(sum_ + self._chunks[stage * CHUNK + k.thread_id()])
            k.mbarrier.arrive(self._empty + stage)
            at.set(at + 1)

        with k.if_(k.warp_id() < CONSUMERS // 32):
            with k.loop():
                k.mbarrier.wait(self._posted + turn % BOXES, turn // BOXES % 2)
                tile = k.var(self._numbers[turn % BOXES])
                k.mbarrier.arrive(self._taken + turn % BOXES)
                k.break_if(tile >= self._tiles)
                turn.set(turn + 1)
                work(tile.value, use)
            y[k.thread_id()] = sum_


@nvb.kernel("sm_90", threads=160)
def two_segments_are_one_loop(k, x: CHUNKS, y: CHUNKS, lengths: NUMBERS, counter: NUMBERS, tiles: i32):
    sides = Sides(k, counter, tiles)

    def one_after_the_other(tile: nvb.Value, step: Step) -> None:
        for segment in range(2):
            with k.range(lengths[2 * tile + segment]):
                step()

    def together(tile: nvb.Value, step: Step) -> None:
        with k.range(lengths[2 * tile] + lengths[2 * tile + 1]):
            step()

    sides.produce(x, one_after_the_other)
    sides.consume(y, together)


@nvb.kernel("sm_90", threads=160)
def rows_and_columns_are_one_loop(k, x: CHUNKS, y: CHUNKS, extents: NUMBERS, counter: NUMBERS, tiles: i32):
    sides = Sides(k, counter, tiles)

    def row_by_row(tile: nvb.Value, step: Step) -> None:
        with k.range(extents[2 * tile]), k.range(extents[2 * tile + 1]):
            step()

    def together(tile: nvb.Value, step: Step) -> None:
        with k.range(extents[2 * tile] * extents[2 * tile + 1]):
            step()

    sides.produce(x, row_by_row)
    sides.consume(y, together)


@nvb.kernel("sm_90", threads=160)
def two_chunks_a_round_and_an_odd_one(k, x: CHUNKS, y: CHUNKS, lengths: NUMBERS, counter: NUMBERS, tiles: i32):
    sides = Sides(k, counter, tiles)

    def one_by_one(tile: nvb.Value, step: Step) -> None:
        with k.range(lengths[tile]):
            step()

    def in_pairs(tile: nvb.Value, step: Step) -> None:
        length = lengths[tile]
        with k.range(length // 2):
            step()
            step()
        with k.if_(length % 2 == 1):
            step()

    sides.produce(x, one_by_one)
    sides.consume(y, in_pairs)


@nvb.kernel("sm_90", threads=160)
def masked_chunks_first(k, x: CHUNKS, y: CHUNKS, lengths: NUMBERS, counter: NUMBERS, tiles: i32):
    sides = Sides(k, counter, tiles)

    def one_by_one(tile: nvb.Value, step: Step) -> None:
        with k.range((lengths[tile] + 63) // 64):
            step()

    def masked_and_whole(tile: nvb.Value, step: Step) -> None:
        chunks = (lengths[tile] + 63) // 64
        with k.range(k.math.min(chunks, 3)):
            step()
        with k.range(k.math.max(chunks - 3, 0)):
            step()

    sides.produce(x, one_by_one)
    sides.consume(y, masked_and_whole)


@nvb.kernel("sm_90", threads=160)
def a_first_chunk_that_is_there_always(k, x: CHUNKS, y: CHUNKS, lengths: NUMBERS, counter: NUMBERS, tiles: i32):
    sides = Sides(k, counter, tiles)

    def one_by_one(tile: nvb.Value, step: Step) -> None:
        with k.range(lengths[tile]):
            step()

    def first_and_others(tile: nvb.Value, step: Step) -> None:
        k.assume(lengths[tile] >= 1)
        step()
        with k.range(lengths[tile] - 1):
            step()

    sides.produce(x, one_by_one)
    sides.consume(y, first_and_others)


@nvb.kernel("sm_90", threads=160)
def four_chunks_a_round_of_lengths_that_four_divides(
    k, x: CHUNKS, y: CHUNKS, lengths: NUMBERS, counter: NUMBERS, tiles: i32
):
    """What the caller promises of the numbers in memory is written nowhere."""
    sides = Sides(k, counter, tiles, stages=2)

    def one_by_one(tile: nvb.Value, step: Step) -> None:
        with k.range(lengths[tile]):
            step()

    def in_fours(tile: nvb.Value, step: Step) -> None:
        with k.range(lengths[tile] // 4):
            for _ in range(4):
                step()

    sides.produce(x, one_by_one)
    sides.consume(y, in_fours)
