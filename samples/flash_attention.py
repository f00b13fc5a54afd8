"""O = softmax(Q K^T) V in f16 on Hopper, flash attention forward: the scores of a block of keys never leave registers.

One thread loads, two warpgroups of 64 queries multiply. While a warpgroup takes the softmax of the next scores, the
weights of the last ones are multiplied with V, and the other warpgroup multiplies in turns with it. Run it as it is.
"""

from __future__ import annotations

import math
import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import Major, f16, f32, i32, i64, u32
from nvbackend.layout import Layout
from samples.problem import Problem
from samples.problem import main as solve

DEPTH, BLOCK = 128, 176  # the head's dimension, and keys of a step
CONSUMERS, STAGES = 2, 2
QUERIES = 64 * CONSUMERS
SCALE = math.log2(math.e) / math.sqrt(DEPTH)  # of scores, for powers of two
PANEL = 64  # columns of a row that TMA loads at a time, swizzled
FIRST_TURN = 1  # named barriers: the turn of each warpgroup

Queries = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(1, QUERIES, PANEL))]
Keys = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(1, BLOCK, PANEL))]
Rows = Annotated[i32, nvb.Scalar(i32, minimum=1)]
QUICK = nvb.MathPolicy(contract=True, ftz=True, approx=True)


def produce(
    k: nvb.KernelBuilder,
    k_ring: nvb.Ring[nvb.SharedTile],
    v_ring: nvb.Ring[nvb.SharedTile],
    keys: nvb.TensorMapParameter,
    values: nvb.TensorMapParameter,
    steps: nvb.Value,
    head: nvb.Value,
) -> None:
    """Load the keys of a block before the values of the one before it: they are multiplied in this order.

    The last block comes first: some of its keys may not exist, and only its scores are masked.
    """
    with k_ring.fill() as stage:
        k.tma.load(stage.tile, keys, (head, (steps - 1) * BLOCK, 0), stage.full)
    with k.range(steps) as done:
        at = (steps - 1 - done) * BLOCK
        with k.if_(at > 0), k_ring.fill() as stage:
            k.tma.load(stage.tile, keys, (head, at - BLOCK, 0), stage.full)
        with v_ring.fill() as stage:
            k.tma.load(stage.tile, values, (head, 0, at), stage.full)


def packed(k: nvb.KernelBuilder, weights: nvb.TileValues) -> list[nvb.Value]:
    """Pairs of f16, as A of an instruction has them: in the order of the scores."""
    return [
        k.convert.pack("f16x2", low, high).bitcast(u32) for low, high in zip(weights[::2], weights[1::2], strict=True)
    ]


class Softmax:
    """The greatest score and the sum of weights of each row so far."""

    def __init__(self, k: nvb.KernelBuilder, scores: nvb.TileValues) -> None:
        self._k = k
        self.most = k.var(scores.reduce_rows("max"), name="most")
        self.weights = self._weights(scores, self.most.value)
        self.total = k.var(self.weights.reduce_rows("add", lanes=False), name="total")

    def _weights(self, scores: nvb.TileValues, most: nvb.AxisValues) -> nvb.TileValues:
        shift = most.map(lambda value: value * SCALE)
        return scores.map(lambda score, by: self._k.math.exp2(score * SCALE - by), shift)

    def step(self, scores: nvb.TileValues) -> tuple[nvb.TileValues, nvb.AxisValues]:
        """The weights of more scores, and the factor for what the weights before were."""
        most = self.most.value.map(self._k.math.max, scores.reduce_rows("max"))
        factor = self.most.value.map(lambda old, new: self._k.math.exp2((old - new) * SCALE), most)
        weights = self._weights(scores, most)
        self.total.set(self.total.value * factor + weights.reduce_rows("add", lanes=False))
        self.most.set(most)
        return weights, factor

    def sums(self) -> nvb.AxisValues:
        """The sum of each row's weights, over the four lanes that have parts of it."""
        return self.total.value.reduce_lanes("add")


@nvb.kernel("sm_90a", threads=128 * (1 + CONSUMERS), min_ctas=1, math=QUICK)
def attention(k: nvb.KernelBuilder, q: Queries, keys: Keys, values: Keys, o: nvb.Pointer[f16], rows: Rows) -> None:
    scoring = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{BLOCK}k16", f16, f16, f32), warpgroups=(CONSUMERS, 1))
    weighing = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{DEPTH}k16", f16, f16, f32, a_in_registers=True), (CONSUMERS, 1))
    q_tile, q_full = k.shared_tile(scoring.smem_a(DEPTH)), k.mbarrier.array(1, arrivals=1)
    k_ring = k.pipeline(STAGES, CONSUMERS, tile=scoring.smem_b(DEPTH))
    v_ring = k.pipeline(STAGES, CONSUMERS, tile=weighing.smem_b(BLOCK, Major.MN))
    k.tma.prefetch_maps(q, keys, values)
    k.mbarrier.ready()
    first, head, steps = k.block_id("x") * QUERIES, k.block_id("y"), (rows + (BLOCK - 1)) // BLOCK

    with k.producer(registers=24):
        k.mbarrier.arrive(q_full, expect_tx=q_tile.layout.bytes)
        k.tma.load(q_tile, q, (head, first, 0), q_full)
        produce(k, k_ring, v_ring, keys, values, steps, head)

    with k.consumers(registers=240) as mine:
        scores, acc = scoring.accumulator("scores"), weighing.accumulator("o")
        words = weighing.register_tensor_A(BLOCK, "weights")
        with k.if_(mine == 1):
            k.barrier.arrive(FIRST_TURN, 128 * CONSUMERS)
        k.mbarrier.wait(q_full, 0)
        with k_ring.drain() as key, k.wgmma.group():
            scoring.accumulate(scores, q_tile, key.tile, mine)
        last = (steps - 1) * BLOCK
        softmax = Softmax(k, scores.elements().where(lambda _, column: last + column < rows, -math.inf))
        words.set_registers(packed(k, softmax.weights))
        with k.range(steps - 1), v_ring.drain() as value:
            with k_ring.drain() as key:
                k.barrier.sync(FIRST_TURN + mine, 128 * CONSUMERS)
                scores.clear()
                fragment = weighing.make_fragment_A(words)
                k.wgmma.fence()
                scoring.accumulate(scores, q_tile, key.tile, mine)
                k.wgmma.commit_group()
                weighing.accumulate(acc, fragment, value.tile)
                k.wgmma.commit_group()
                k.barrier.arrive(FIRST_TURN + 1 - mine, 128 * CONSUMERS)
                k.wgmma.wait_group(1, drains=[scores])
            weights, factor = softmax.step(scores.elements())
            k.wgmma.wait_group(0, drains=[acc])
            acc.set(acc.elements() * factor)
            words.set_registers(packed(k, weights))
        fragment = weighing.make_fragment_A(words)
        with v_ring.drain() as value, k.wgmma.group():
            weighing.accumulate(acc, fragment, value.tile)
        with k.if_(mine == 0):
            k.barrier.sync(FIRST_TURN, 128 * CONSUMERS)
        place = (head.to(i64) * rows.to(i64) + first.to(i64)) * DEPTH
        tile = k.tensor(o + place, Layout((QUERIES, DEPTH), (DEPTH, 1)))
        inside = k.identity_tensor((QUERIES, DEPTH), at=(first, 0)).below(rows, None)
        (acc.elements(mine) / softmax.sums()).store(tile, where=inside)


def launch(loaded: nvb.runtime.LoadedKernel, q: Any, keys: Any, values: Any, o: Any) -> None:
    """Start the kernel on Q, K, V and O, each of heads x rows x DEPTH; a head of a batch is a head."""
    heads, rows, _ = q.shape
    loaded.launch(grid(heads, rows), q, keys, values, o, rows)


def grid(heads: int, rows: int) -> tuple[int, int]:
    """CTAs to launch: one for each tile of queries of each head."""
    return -(-rows // QUERIES), heads


def problem(heads: int, rows: int) -> Problem:
    """Random Q, K and V, and O in f64."""
    import numpy as np

    random = np.random.default_rng(heads + rows)
    q, keys, values = (random.standard_normal((heads, rows, DEPTH)).astype(np.float16) for _ in range(3))
    scores = q.astype(np.float64) @ keys.astype(np.float64).transpose(0, 2, 1) * SCALE
    weights = np.exp2(scores - scores.max(2, keepdims=True))
    expected = weights / weights.sum(2, keepdims=True) @ values.astype(np.float64)
    return Problem(attention, launch, (q, keys, values), expected, np.full_like(q, np.nan), 2**-9)


def main() -> int:
    return solve(__doc__, problem, sizes="heads and rows", on_the_gpu=(4, 1000), in_the_simulator=(2, 200))


if __name__ == "__main__":
    sys.exit(main())
