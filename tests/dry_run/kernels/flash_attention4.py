"""FlashAttention 4: scores and weights in tensor memory, O = (Q K^T) V, the weights as A of the second product."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.kernels.cutlass_sm100 import HALF, MATRIX, MMA, PART, ROWS, SHAPE, store
from tests.dry_run.kernels.parts import COUNT, OUT, State, named, product, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "FlashAttention 4"
WEIGHTED = nvb.Tcgen05Request("f16", a_in_tmem=True)
LOADER, ISSUER = 4, 5
"""Warps; 0 to 3 make the weights."""


def _attention(*counts):
    def launch(blocks):
        q, keys = (np.clip(small(seed, rows, 64), -1, 1) for seed, rows in ((1, 128), (blocks, 64 * blocks)))
        values = small(blocks + 3, 64 * blocks, 64)
        weights = product(q, keys).astype(np.float16).astype(np.float32)
        return Launch(1, (q, keys, values.T.copy(), Out(weights @ values.astype(np.float32)), blocks))

    return lambda: [launch(one) for one in counts]


class Kernel:
    """The stages of keys and values, the columns of tensor memory, and what says that they are there."""

    def __init__(self, k, wrong):
        self.k, self.wrong = k, wrong
        self.q = k.shared_tile(ROWS, name="q")
        self.keys, self.values = (k.shared_tiles(HALF, 2, name=name) for name in ("k", "v"))
        self.full, self.empty = (k.mbarrier.array(2, arrivals=1, name=name) for name in ("full", "empty"))
        self.q_full, self.scored, self.done = (
            k.mbarrier.array(1, arrivals=1, name=name) for name in ("q_full", "scored", "done")
        )
        self.weighted = k.mbarrier.array(1, arrivals=32 if wrong("counts_one_warp") else 128, name="weighted")
        k.mbarrier.ready()

    def divide(self, tmem):
        self.scores, self.sums = tmem.columns(0, 64), tmem.columns(128, 64)
        self.weights = tmem.columns(128 if self.wrong("weights_in_the_sums") else 64, 32)

    def load(self, q, keys, values, blocks):
        k, write = self.k, State(self.k, 2, 1)
        k.mbarrier.arrive(self.q_full, expect_tx=ROWS.bytes)
        k.tma.load(self.q, q, (0, 0), self.q_full)
        with k.range(blocks) as block:
            here = self.full + write.index
            k.mbarrier.wait(self.empty + write.index, write.phase)
            k.mbarrier.arrive(here, expect_tx=2 * HALF.bytes)
            k.tma.load(self.keys.at(write.index), keys, (block * 64, 0), here)
            k.tma.load(self.values.at(write.index), values, (0, block * 64), here)
            write.advance()

    def score(self, stage):
        for column in range(0, 64, 16):
            at, more = (0, column), column > 0
            self.k.tcgen05.mma(MMA, self.scores, self.q, self.keys.at(stage), SHAPE, a_at=at, b_at=at, accumulate=more)
        self.k.tcgen05.commit(self.scored)

    def issue(self, blocks):
        k, wrong, read = self.k, self.wrong, State(self.k, 2)
        k.mbarrier.wait(self.q_full, 0)
        ahead = wrong("scores_ahead_of_the_weights")
        with k.range(blocks) as block:
            if ahead:
                with k.if_(block == 0):
                    k.mbarrier.wait(self.full, 0)
                    self.score(k.const(0, i32))
            else:
                k.mbarrier.wait(self.full + read.index, read.phase)
                self.score(read.index)
            k.mbarrier.wait(self.weighted, block & 1 ^ (1 if wrong("waits_for_the_phase_before") else 0))
            if not wrong("no_fence_after_the_weights"):
                k.tcgen05.fence_after_thread_sync()
            if ahead:
                with k.if_(block + 1 < blocks):
                    k.mbarrier.wait(self.full + (block + 1) % 2, (block + 1) // 2 & 1)
                    self.score((block + 1) % 2)
            for part in range(4):
                more = block > 0 if part == 0 and not wrong("adds_from_the_first_on") else True
                weights, values = self.weights.columns(8 * part, 8), self.values.at(read.index)
                k.tcgen05.mma(WEIGHTED, self.sums, weights, values, SHAPE, b_at=(0, 16 * part), accumulate=more)
            if wrong("given_back_by_arrival"):
                k.mbarrier.arrive(self.empty + read.index)
            else:
                k.tcgen05.commit(self.empty + read.index)
            read.advance()
        k.tcgen05.commit(self.done)

    def weigh(self, blocks):
        """The four warps: scores to weights, which are the same numbers here as f16."""
        k, wrong, lanes = self.k, self.wrong, self.k.warp_id() * 32
        with k.range(blocks) as block:
            if not wrong("scores_without_a_wait"):
                k.mbarrier.wait(self.scored, block & 1)
            if not wrong("no_fence_after_the_scores"):
                k.tcgen05.fence_after_thread_sync()
            load = k.tcgen05.ld(self.scores.lanes(lanes), "32x32b", 64)
            k.tcgen05.wait_ld(load)
            pairs = zip(load.values[::2], load.values[1::2], strict=True)
            words = [
                k.convert.pack("f16x2", low.bitcast(f32), high.bitcast(f32)).bitcast(nvb.u32) for low, high in pairs
            ]
            k.tcgen05.st(self.weights.lanes(lanes), "32x32b", words)
            if not wrong("weights_on_their_way"):
                k.tcgen05.wait_st()
            if not wrong("no_fence_before_the_arrival"):
                k.tcgen05.fence_before_thread_sync()
            k.mbarrier.arrive(self.weighted)

    def finish(self, o):
        k, lanes = self.k, self.k.warp_id() * 32
        if not self.wrong("sums_without_a_wait"):
            k.mbarrier.wait(self.done, 0)
        k.tcgen05.fence_after_thread_sync()
        load = k.tcgen05.ld(self.sums.lanes(lanes), "32x32b", 64)
        k.tcgen05.wait_ld(load)
        store(o + (lanes + k.lane_id()) * 64, load.values)


@scene(
    STYLE,
    _attention(1, 2, 4),
    why="One place of scores and of weights is enough: products of one thread are done in order.",
    counts_one_warp=Mistake("accounting", "The weights count one warp's arrivals, and four warps arrive."),
    weights_in_the_sums=Mistake("tensor-memory", "The weights lie in columns that their product is written to."),
    weights_on_their_way=Mistake("tensor-memory", "The weights are said to be there before their stores are done."),
    scores_ahead_of_the_weights=Mistake(
        "tensor-memory", "The next scores are issued before the weights have been multiplied, which are in one place."
    ),
    scores_without_a_wait=Mistake("tensor-memory", "The scores are loaded with no wait for their product."),
    sums_without_a_wait=Mistake("read-before-wait", "The sums are loaded with no wait for the last product."),
    adds_from_the_first_on=Mistake("tensor-memory", "The first product adds to what nothing has written."),
    given_back_by_arrival=Mistake("released-early", "An arrival gives back the stage that a product reads."),
    waits_for_the_phase_before=Mistake("parity", "The weights are waited for by the other parity."),
    no_fence_after_the_weights=Mistake("tensor-memory", "No tcgen05 fence is between the wait for the weights and "
                                                        "their product."),
    no_fence_after_the_scores=Mistake("tensor-memory", "No tcgen05 fence is between the wait for the scores and their "
                                                       "loads."),
    no_fence_before_the_arrival=Mistake("tensor-memory", "No tcgen05 fence is between the stores of the weights and "
                                                         "the arrival that says that they are there."),
)  # fmt: skip
@nvb.kernel("sm_100a", threads=192, min_ctas=1)
def weights_in_tensor_memory(k, q: MATRIX, keys: PART, values: PART, o: OUT, blocks: COUNT, *, mistake=None):
    parts = Kernel(k, named(mistake))
    with k.tcgen05.tmem(256) as tmem:
        parts.divide(tmem)
        with k.one_thread(LOADER):
            parts.load(q, keys, values, blocks)
        with k.one_thread(ISSUER):
            parts.issue(blocks)
        with k.if_(k.warp_id() < LOADER):
            parts.weigh(blocks)
            parts.finish(o)
