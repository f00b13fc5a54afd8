"""The CTAs of a cluster take the steps along K of a tile in turn, so that every multiprocessor has a part of W to read.

Each CTA adds a part of the sums: the others store theirs to its shared
memory, and these stores complete on its mbarrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import nvbackend as nvb
from nvbackend import f32
from samples.gemm.wide import begin
from samples.w4a16.weights import OCTET, REGISTERS, ROWS, Count, Operands, Pairs, Rows, Scales, Steps, Tile, Words, X


class Sums:
    """The sums of a tile whose depth `split` CTAs share: each of them adds and writes a part."""

    def __init__(self, k: nvb.KernelBuilder, columns: int, split: int, slots: int) -> None:
        self._k, self._split, self._slots = k, split, slots
        self._all = columns // OCTET * slots
        self._mine = self._all // split
        self._sent = k.shared(f32, 4 * self._all, align=16, name="sums")  # a part of each CTA
        self._full = k.mbarrier.array(1, arrivals=1, name="sent")

    def expect(self) -> None:
        """One thread says how many bytes will come from the other CTAs."""
        with self._k.if_(self._k.thread_id() == 0):
            self._k.mbarrier.arrive(self._full, expect_tx=16 * (self._all - self._mine))

    def send(self, octet: int, slot: nvb.Value, sums: Sequence[nvb.Value]) -> None:
        """Send four sums of a thread (`Tile.write`) to the CTA that adds them."""
        k, mine, slots = self._k, self._k.cluster.rank(), self._slots
        number = octet * slots + slot
        to = octet * slots // self._mine if self._mine % slots == 0 else number // self._mine
        place = self._sent + (mine * self._mine + number - to * self._mine) * 4
        with k.if_(mine == to):
            place.store(*sums)
        with k.else_():
            k.async_store.store(place, sums, self._full, to)

    def store(self, tile: Tile, thread: nvb.Value) -> None:
        """Add this CTA's part, when all of it is there, and write it."""
        k = self._k
        k.barrier.sync(1, self._slots)
        k.mbarrier.wait(self._full, 0)
        with k.range(thread, self._mine, self._slots) as index:
            parts = [(self._sent + (self._mine * source + index) * 4).load(4) for source in range(self._split)]
            number = k.cluster.rank() * self._mine + index
            total = [reduce(add, values) for values in zip(*parts, strict=True)]
            tile.write(number // self._slots, number % self._slots, total)


@nvb.kernel(
    "sm_90a", threads=lambda consumers: 128 * (1 + consumers), cluster=lambda split: split, min_ctas=lambda ctas: ctas
)
def clusters(
    k: nvb.KernelBuilder,
    x: X,
    w: Words,
    scales: Scales,
    y: Pairs,
    m: Count,
    n: Rows,
    steps: Count,
    *,
    columns: int = 64,
    split: int = 2,
    stages: int = 4,
    consumers: int = 2,
    ctas: int = 1,
) -> None:
    """A tile has 64 rows of W for each consumer, and `columns` rows of X; a step has the columns of a group of both."""
    rows, operands = ROWS * consumers, Operands(x, w, scales, n)
    along_k = Steps(k, columns, stages, consumers)
    shared = Sums(k, columns, split, 128 * consumers) if split > 1 else None
    k.tma.prefetch_maps(x)
    k.mbarrier.ready()
    if shared is not None:
        shared.expect()
    rank, number = k.cluster.rank(), k.cluster.id()
    at = number % (n // rows) * rows, begin(k, number // (n // rows), columns, m)
    turns = (steps - rank + (split - 1)) // split

    with k.producer(registers=40):
        k.griddepcontrol("launch_dependents")
        k.griddepcontrol("wait")
        with k.range(turns) as turn, along_k.ring.fill() as stage:
            along_k.load(stage, operands, at, turn * split + rank)

    with k.consumers(registers=REGISTERS[ctas]) as warpgroup:
        acc, slot = along_k.mma.accumulator(), warpgroup * 128 + k.thread_id() % 128
        along_k.multiply(along_k.products(acc), turns, warpgroup)
        sums, tile = acc.elements(warpgroup), Tile(k, y, at, (m, n))
        for octet in range(columns // OCTET):
            (tile.write if shared is None else shared.send)(octet, slot, sums[4 * octet : 4 * octet + 4])
        if shared is not None:
            shared.store(tile, slot)
