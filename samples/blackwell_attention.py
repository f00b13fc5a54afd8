"""O = softmax(Q K^T) V on Blackwell, flash attention forward: scores and weights lie in tensor memory.

One thread loads, one multiplies, and each thread of four warps has the softmax of a query. The next scores are
multiplied while it weighs the last ones; its weights go back to tensor memory, as the left operand of the product with
V. What has been summed is scaled there, but only where the greatest score of one of a warp's queries has grown.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import Annotated

import nvbackend as nvb
from nvbackend import Major, f16, f32, i32, u32
from samples import attention_by_tiles
from samples.attention_by_tiles import LEAST
from samples.flash_attention import QUICK

QUERIES, BLOCK, STAGES, PANEL, COLUMNS = 128, 64, 2, 64, 512
PRODUCER, ISSUER = 4, 5  # warps; those before them have the queries
CHUNK, PART = 8, 32  # columns of a 16-byte store, and of the product that are in registers at a time

Queries = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(1, QUERIES, PANEL))]
Keys = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(1, BLOCK, PANEL))]


class Products:
    """Q K^T of a block and the weights times V: their tiles, the mbarriers between the threads, and tensor memory."""

    def __init__(self, k: nvb.KernelBuilder, depth: int) -> None:
        self._k = k
        self.of_scores = k.tiled_mma(nvb.tcgen05.mma(f"m{QUERIES}n{BLOCK}k16", f16, f16, f32))
        weighing = nvb.tcgen05.mma(f"m{QUERIES}n{depth}k16", f16, f16, f32, a_in_tmem=True)
        self.of_weights = k.tiled_mma(weighing)
        self._query = k.shared_tile(self.of_scores.smem_a(depth), name="q")
        self._k_ring = k.pipeline(STAGES, 1, tile=self.of_scores.smem_b(depth))
        self._v_ring = k.pipeline(STAGES, 1, tile=self.of_weights.smem_b(BLOCK, Major.MN))
        self._loaded = k.mbarrier.array(1, arrivals=1, name="loaded")
        self._scored = k.mbarrier.array(2, arrivals=1, name="scored")
        self._weighed = k.mbarrier.array(1, arrivals=QUERIES, name="weighed")
        self._multiplied = k.mbarrier.array(1, arrivals=1, name="multiplied")
        k.mbarrier.ready()

    def lie_in(self, tmem: nvb.TmemColumns, depth: int) -> None:
        """Scores of two blocks, the weights of one, and the sums."""
        self._blocks = tmem
        self.weights, self.sums = tmem.columns(2 * BLOCK, BLOCK // 2), tmem.columns(256, depth)

    def scores(self, step: nvb.Operand) -> nvb.TmemColumns:
        return self._blocks.columns(step % 2 * BLOCK, BLOCK)

    def load(
        self,
        maps: Sequence[nvb.TensorMapParameter],
        heads: tuple[nvb.Value, nvb.Value],
        first: nvb.Value,
        steps: nvb.Value,
    ) -> None:
        """For the producer: a tile of queries of the first head, and blocks of the other one's keys and values."""
        k, (q, keys, values), (head, owner) = self._k, maps, heads
        k.mbarrier.arrive(self._loaded, expect_tx=self._query.layout.bytes)
        k.tma.load(self._query, q, (head, first, 0), self._loaded)
        with k.range(steps) as step:
            with self._k_ring.fill() as stage:
                k.tma.load(stage.tile, keys, (owner, step * BLOCK, 0), stage.full)
            with self._v_ring.fill() as stage:
                k.tma.load(stage.tile, values, (owner, 0, step * BLOCK), stage.full)

    def issue(self, steps: nvb.Value) -> None:
        """For one thread: the next scores before the product of the last weights, for which it waits."""
        k = self._k
        k.mbarrier.wait(self._loaded, 0)
        self._score(k.const(0, i32))
        with k.range(steps) as step:
            with k.if_(step + 1 < steps):
                self._score(step + 1)
            k.mbarrier.wait(self._weighed, step % 2)
            k.tcgen05.fence_after_thread_sync()
            with self._v_ring.feed() as stage:
                a = self.of_weights.make_fragment_A(self.weights, BLOCK)
                self.of_weights.accumulate(self.sums, a, stage.tile, accumulate=step > 0)
            k.tcgen05.commit(self._multiplied)

    def _score(self, step: nvb.Value) -> None:
        with self._k_ring.feed() as stage:
            self.of_scores.accumulate(self.scores(step), self._query, stage.tile, accumulate=False)
        self._k.tcgen05.commit(self._scored + step % 2)

    def wait_for_scores(self, step: nvb.Value) -> nvb.TileValues:
        """Those of a block; a thread has a query's."""
        self._k.mbarrier.wait(self._scored + step % 2, step // 2 % 2)
        self._k.tcgen05.fence_after_thread_sync()
        return self.of_scores.load(self.scores(step))

    def wait_for_sums(self, step: nvb.Value) -> None:
        self._k.mbarrier.wait(self._multiplied, step % 2)
        self._k.tcgen05.fence_after_thread_sync()

    def give(self, weights: nvb.TileValues) -> None:
        """Have a block's weights multiplied."""
        self.of_weights.make_fragment_A(self.weights, weights)
        self._k.tcgen05.fence_before_thread_sync()
        self._k.mbarrier.arrive(self._weighed)

    def parts(self, depth: int) -> Iterator[tuple[int, nvb.TileValues]]:
        """The sums, some columns at a time, with the first one's number."""
        for first in range(0, depth, PART):
            yield first, self.of_weights.load(self.sums, first, PART)


def weigh(k: nvb.KernelBuilder, products: Products, steps: nvb.Value, last: nvb.Value, depth: int) -> nvb.Value:
    """The softmax of a query that sees the keys up to `last`; the sum of its weights."""
    most, total = k.var(LEAST, f32), k.var(0.0, f32)
    with k.range(steps) as step:
        here = last - step * BLOCK
        powers = products.wait_for_scores(step) * (math.log2(math.e) / math.sqrt(depth))
        powers = powers.where(lambda _, key: key <= here, LEAST)
        top = reduce(k.math.max, powers, most.value)
        weights = powers.map(lambda x: k.math.exp2(x - top))
        factor = k.math.exp2(most - top)
        with k.if_(step > 0):
            products.wait_for_sums(step - 1)
            with k.if_(k.warp.vote("any", top > most)):
                for first, part in products.parts(depth):
                    scaled = [(value * factor).bitcast(u32) for value in part]
                    k.tcgen05.st(products.sums.columns(first, PART).lanes(k.warp_id() * 32), "32x32b", scaled)
                k.tcgen05.wait_st()
        products.give(weights)
        total.set(total * factor + sum(weights))
        most.set(top)
    return total.value


@nvb.kernel("sm_100a", threads=192, min_ctas=1, math=QUICK)
def attention(
    k: nvb.KernelBuilder,
    q: Queries,
    keys: Keys,
    values: Keys,
    o: nvb.Pointer[f16],
    rows: i32,
    *,
    depth: int = 128,
    causal: bool = False,
    share: int = 1,
) -> None:
    """A CTA has 128 queries of a head. `share` heads of Q have one head of K and V."""
    products, first, head = Products(k, depth), k.block_id("x") * QUERIES, k.block_id("y")
    seen = k.math.min(first + QUERIES, rows) if causal else rows
    steps = (seen + (BLOCK - 1)) // BLOCK
    with k.tcgen05.tmem(COLUMNS) as tmem:
        products.lie_in(tmem, depth)
        with k.one_thread(PRODUCER):
            products.load((q, keys, values), (head, head // share), first, steps)
        with k.one_thread(ISSUER):
            products.issue(steps)
        with k.if_(k.warp_id() < PRODUCER):
            row = first + k.thread_id()
            total = weigh(k, products, steps, row if causal else rows - 1, depth)
            products.wait_for_sums(steps - 1)
            for at, part in products.parts(depth):
                with k.if_(row < rows):
                    for column in range(0, PART, CHUNK):
                        eight = [(value / total).to(f16) for value in part[column : column + CHUNK]]
                        (o + ((head * rows + row) * depth + at + column)).store(*eight)


launch = partial(attention_by_tiles.launch, QUERIES)
problem = partial(attention_by_tiles.problem_for, attention, launch)


if __name__ == "__main__":
    sys.exit(attention_by_tiles.main(__doc__, problem))
