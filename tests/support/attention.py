"""Flash attention forward, causal or not, from public calls alone: by mma.sync for sm_80, by wgmma for sm_90a."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

import nvbackend as nvb
from nvbackend import Major, f16, f32, i32
from nvbackend.layout import Layout

DEPTH = 64
"""Head dimension."""
BLOCK = 64
"""Queries of a CTA, and keys of a step."""
_FAR = 1 << 20


class Softmax:
    """The online softmax of a CTA's rows: maxima and sums so far, a value for each row that the thread holds."""

    def __init__(self, k: nvb.KernelBuilder, acc: Any) -> None:
        self._k = k
        self.most = k.var(acc.rows(-math.inf), name="most")
        self.total = k.var(acc.rows(0.0), name="total")

    def step(self, acc: Any, scores: Any) -> Any:
        """The weights of scores in powers of two; what is accumulated so far is scaled to the new maxima."""
        exp2, greater = self._k.math.exp2, self._k.math.max
        most = self.most.value.map(greater, scores.reduce_rows("max"))
        weights, factor = (scores - most).map(exp2), (self.most.value - most).map(exp2)
        self.total.set(self.total.value * factor + weights.reduce_rows("add"))
        self.most.set(most)
        acc.set(acc.elements() * factor)
        return weights

    def store(self, acc: Any, o: nvb.Tensor, lse: nvb.Address, first: Any, rows: Any) -> None:
        """Normalised rows, and for each row the logarithm (to base 2) of the sum of its powers."""
        k = self._k
        inside = k.identity_tensor((BLOCK, DEPTH), at=(first, 0)).below(rows, None)
        (acc.elements() / self.total.value).store(o, where=inside)
        sums = self.most.value + self.total.value.map(k.math.log2)
        with k.if_(sums.owned()):
            for row, value in sums.items():
                with k.if_(first + row < rows):
                    lse[first + row] = value


def visible(first_row: Any, first_column: Any, rows: Any, *, causal: bool) -> Any:
    """Which scores count: keys that there are, and with `causal` none after the query."""

    def keep(row: Any, column: Any) -> Any:
        inside = first_column + column < rows
        return inside & (first_column + column <= first_row + row) if causal else inside

    return keep


@nvb.kernel("sm_80", threads=128)
def by_warps(
    k,
    q: nvb.Pointer[f16],
    keys: nvb.Pointer[f16],
    values: nvb.Pointer[f16],
    o: nvb.Pointer[f16],
    lse: nvb.Pointer[f32],
    rows: i32,
    scale: f32,
    *,
    causal=False,
):
    """Rows past the end are read, and multiplied by weights of 0: the matrices have whole blocks."""
    how = {"atom_layout": (4, 1, 1), "permutation": (BLOCK, 16, 16)}
    scoring = k.tiled_mma("SM80_16x8x16_F32F16F16F32_TN", **how, tile=(BLOCK, BLOCK))
    weighing = k.tiled_mma("SM80_16x8x16_F32F16F16F32_TN", **how, tile=(BLOCK, DEPTH))
    block = k.block_id()
    by_row, transposed = Layout((_FAR, DEPTH), (DEPTH, 1)), Layout((DEPTH, _FAR), (1, DEPTH))
    q_tile = k.tensor(q, by_row).tile((BLOCK, DEPTH), (block, 0))
    key_rows, value_columns = k.tensor(keys, by_row), k.tensor(values, transposed)
    queries = scoring.load_a(q_tile)
    acc = weighing.accumulator("o")
    softmax = Softmax(k, acc)
    with k.range((rows + BLOCK - 1) // BLOCK) as step:
        scores = scoring.accumulator("scores")
        scoring.gemm(scores, queries, scoring.load_b(key_rows.tile((BLOCK, DEPTH), (step, 0))))
        keep = visible(block * BLOCK, step * BLOCK, rows, causal=causal)
        weights = softmax.step(acc, (scores.elements() * scale).where(keep, -math.inf))
        value_tile = value_columns.tile((DEPTH, BLOCK), (0, step))
        weighing.gemm(acc, weighing.make_fragment_A(weights), weighing.load_b(value_tile))
    o_tile = k.tensor(o, by_row).tile((BLOCK, DEPTH), (block, 0))
    softmax.store(acc, o_tile, lse, block * BLOCK, rows)


MATRIX = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(DEPTH, BLOCK))]


@nvb.kernel("sm_90a", threads=128)
def by_a_warpgroup(
    k,
    q: MATRIX,
    keys: MATRIX,
    values: MATRIX,
    o: nvb.Pointer[f16],
    lse: nvb.Pointer[f32],
    rows: i32,
    scale: f32,
    *,
    causal=False,
):
    """Keys and values of the next step are loaded while this one's are multiplied."""
    scoring = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{BLOCK}k16", f16, f16, f32))
    weighing = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{DEPTH}k16", f16, f16, f32, a_in_registers=True))
    q_tile = k.shared_tile(scoring.smem_a(DEPTH))
    k_tiles = k.shared_tiles(scoring.smem_b(DEPTH), 2)
    v_tiles = k.shared_tiles(weighing.smem_b(BLOCK, Major.MN), 2)
    arrived, full = k.mbarrier.array(1, arrivals=1), k.mbarrier.array(2, arrivals=1)
    k.mbarrier.ready()

    def load(step: Any, stage: Any) -> None:
        k.mbarrier.arrive(full + stage, expect_tx=2 * q_tile.layout.bytes)
        k.tma.load(k_tiles.at(stage), keys, (step * BLOCK, 0), full + stage)
        k.tma.load(v_tiles.at(stage), values, (0, step * BLOCK), full + stage)

    first, steps = k.block_id() * BLOCK, (rows + BLOCK - 1) // BLOCK
    with k.one_thread():
        k.mbarrier.arrive(arrived, expect_tx=q_tile.layout.bytes)
        k.tma.load(q_tile, q, (first, 0), arrived)
        load(k.const(0, i32), k.const(0, i32))
    k.mbarrier.wait(arrived, 0)
    scores, acc = scoring.accumulator("scores"), weighing.accumulator("o")
    acc.fill(0.0)
    softmax = Softmax(k, acc)
    with k.range(steps) as step:
        stage = step % 2
        with k.one_thread(), k.if_(step + 1 < steps):
            load(step + 1, stage ^ 1)
        k.mbarrier.wait(full + stage, step // 2 % 2)
        scores.clear()
        with k.wgmma.group():
            scoring.accumulate(scores, q_tile, k_tiles.at(stage))
        keep = visible(first, step * BLOCK, rows, causal=causal)
        weights = softmax.step(acc, (scores.elements() * scale).where(keep, -math.inf))
        fragment = weighing.make_fragment_A(weights)
        with k.wgmma.group():
            weighing.accumulate(acc, fragment, v_tiles.at(stage))
        k.barrier.sync()
    o_tile = k.tensor(o, Layout((_FAR, DEPTH), (DEPTH, 1))).tile((BLOCK, DEPTH), (k.block_id(), 0))
    softmax.store(acc, o_tile, lse, first, rows)


def matrices(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, K and V of whole blocks of rows."""
    random = np.random.default_rng(seed)
    whole = -(-rows // BLOCK) * BLOCK
    q, k, v = (random.standard_normal((whole, DEPTH)).astype(np.float16) for _ in range(3))
    return q, k, v


def expected(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, rows: int, scale: float, *, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    """O and the logarithms of the sums, in f64; `scale` is that of powers of two."""
    scores = q[:rows].astype(np.float64) @ keys[:rows].astype(np.float64).T * scale
    if causal:
        scores = np.where(np.tril(np.ones((rows, rows), bool)), scores, -np.inf)
    most = scores.max(1, keepdims=True)
    weights = np.exp2(scores - most)
    sums = weights.sum(1, keepdims=True)
    return weights @ values[:rows].astype(np.float64) / sums, (most + np.log2(sums))[:, 0]
