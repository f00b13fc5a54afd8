"""O = softmax(Q K^T) V on Ampere, flash attention forward: the scores of a block of keys never leave registers.

A warp has 16 queries. cp.async fills a ring of blocks of keys and values, ldmatrix reads them, values transposed, and
mma.sync multiplies. The elements of the scores are, as they lie in registers, the left operand of the product with V.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import Any

import nvbackend as nvb
from nvbackend import f16, i32
from nvbackend.layout import ComposedLayout, Layout, Swizzle
from nvbackend.tiled import cp_async_copy, make_tiled_copy, make_tiled_mma
from samples import attention_by_tiles
from samples.attention_by_tiles import LEAST
from samples.flash_attention import QUICK

WARPS, BLOCK, STAGES = 4, 64, 2
QUERIES, THREADS = 16 * WARPS, 32 * WARPS
CHUNK, PANEL = 8, 64  # elements that a thread copies at once, and of a row of 128 bytes
ATOM = "SM80_16x8x16_F32F16F16F32_TN"


def swizzled(rows: int, depth: int, *, transposed: bool = False) -> ComposedLayout:
    """So many rows in shared memory, or the same as columns, in panels of 128 bytes a row, which are swizzled."""
    across: Any = (PANEL, depth // PANEL), (1, PANEL * rows)
    shape, strides = zip(*((across, (rows, PANEL)) if transposed else ((rows, PANEL), across)), strict=True)
    return ComposedLayout(Swizzle(3, 3, 3), 0, Layout(shape, strides))


class Head:
    """A head of Q, K, V or O: rows of `depth` elements, as the columns of a matrix if it is `transposed`."""

    def __init__(
        self, k: nvb.KernelBuilder, first: nvb.Address, rows: nvb.Value, depth: int, *, transposed: bool = False
    ) -> None:
        self._k, self._rows, self._depth, self._transposed = k, rows, depth, transposed
        shape, strides = ((depth, rows), (1, depth)) if transposed else ((rows, depth), (depth, 1))
        self._matrix = k.tensor(first, Layout(shape, strides))

    def block(self, count: int, number: nvb.Value) -> tuple[nvb.Tensor, nvb.Inside]:
        """The block of so many rows, and what of it there is."""
        if self._transposed:
            inside = self._k.identity_tensor((self._depth, count), at=(0, number * count)).below(None, self._rows)
            return self._matrix.tile((self._depth, count), (0, number)), inside
        inside = self._k.identity_tensor((count, self._depth), at=(number * count, 0)).below(self._rows, None)
        return self._matrix.tile((count, self._depth), (number, 0)), inside

    def fetch(self, count: int, number: nvb.Value, tile: nvb.Tensor) -> None:
        """Start to copy a block; rows after the last one become zeros."""
        across = self._depth // CHUNK
        threads, values = Layout((THREADS // across, across), (across, 1)), Layout((1, CHUNK))
        if self._transposed:
            threads, values = Layout((across, THREADS // across), (1, across)), Layout((CHUNK, 1))
        source, inside = self.block(count, number)
        copy = make_tiled_copy(cp_async_copy(f16, cache="cg"), threads, values)
        self._k.copy_tile(copy, source, tile, where=inside)


@nvb.kernel("sm_80", threads=THREADS, math=QUICK)
def attention(
    k: nvb.KernelBuilder,
    q: nvb.Pointer[f16],
    keys: nvb.Pointer[f16],
    values: nvb.Pointer[f16],
    o: nvb.Pointer[f16],
    rows: i32,
    *,
    depth: int = 128,
    causal: bool = False,
    share: int = 1,
) -> None:
    """A CTA has 64 queries of a head. `share` heads of Q have one head of K and V."""
    tile, head = k.block_id("x"), k.block_id("y")
    of_head = lambda pointer, number, **how: Head(k, pointer + number * rows * depth, rows, depth, **how)  # noqa: E731
    queries, output, owner = of_head(q, head), of_head(o, head), head // share
    of_keys, of_values = of_head(keys, owner), of_head(values, owner, transposed=True)
    scoring = k.tiled_mma(make_tiled_mma(ATOM, (WARPS, 1, 1)), tile=(QUERIES, BLOCK))
    weighing = k.tiled_mma(make_tiled_mma(ATOM, (WARPS, 1, 1)), tile=(QUERIES, depth))

    def fetch(step: nvb.Value, stage: nvb.Stage[nvb.Tensor]) -> None:
        of_keys.fetch(BLOCK, step, stage.keys)
        of_values.fetch(BLOCK, step, stage.values)

    tiles = (f16, swizzled(BLOCK, depth)), (f16, swizzled(BLOCK, depth, transposed=True))
    ring = k.pipeline(STAGES, copies="cp.async", keys=tiles[0], values=tiles[1])
    block, inside = queries.block(QUERIES, tile)
    query = scoring.load_a(block, where=inside)
    seen = k.math.min((tile + 1) * QUERIES, rows) if causal else rows
    acc = weighing.accumulator()
    acc.clear()
    most, sums = k.var(acc.rows(LEAST)), k.var(acc.rows(0.0))

    with ring.steps((seen + (BLOCK - 1)) // BLOCK, fetch) as (step, stage):
        scores = scoring.accumulator()
        scores.clear()
        scoring.gemm(scores, query, scoring.load_b(stage.keys))
        last = tile * QUERIES - step * BLOCK  # of the keys that the first query sees, if it is causal
        visible = lambda row, key: (key <= row + last) if causal else key < rows - step * BLOCK  # noqa: E731
        powers = (scores.elements() * (math.log2(math.e) / math.sqrt(depth))).where(visible, LEAST)
        top = powers.reduce_rows("max").map(k.math.max, most.value)
        factor = (most.value - top).map(k.math.exp2)
        weights = (powers - top).map(k.math.exp2)
        most.set(top)
        sums.set(sums.value * factor + weights.reduce_rows("add", lanes=False))
        acc.set(acc.elements() * factor)
        weighing.gemm(acc, weighing.make_fragment_A(weights), weighing.load_b(stage.values))

    block, inside = output.block(QUERIES, tile)
    (acc.elements() / sums.value.reduce_lanes("add")).to(f16).store(block, where=inside)


launch = partial(attention_by_tiles.launch, QUERIES)
problem = partial(attention_by_tiles.problem_for, attention, launch)


if __name__ == "__main__":
    sys.exit(attention_by_tiles.main(__doc__, problem))
