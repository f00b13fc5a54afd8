"""Two chained products with an online softmax between them, 64 queries a CTA: O = softmax(Q K^T * scale / log2 e) V."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32, u32
from tests.corpus.parts import MATRIX, TILE, multiply

VALUES = SmemLayout(Major.MN, SwizzleMode.B128, f16, 64, 64)
WEIGHTED = nvb.WgmmaRequest(n=64, k=16, d=f32, a=f16, b=f16, a_in_registers=True, trans_b=1)
OUT = nvb.Pointer[f32]
LEAST = -1e30


class Softmax:
    """A thread's two rows: register i of an accumulator is in row (i // 2) % 2 of them."""

    def __init__(self, k, scale):
        self.k, self.scale = k, scale
        self.most = [k.var(LEAST, f32, name="most") for _ in range(2)]
        self.sums = [k.var(0.0, f32, name="sum") for _ in range(2)]

    def across(self, value, combine):
        """A value of a row, of the four threads that have it."""
        for distance in (1, 2):
            value = combine(value, self.k.warp.shuffle(value, "bfly", distance))
        return value

    def step(self, scores):
        """The weights of these scores, and what is accumulated is to be multiplied by, a factor for each row."""
        k, weights, factors = self.k, list(scores), []
        for row in range(2):
            mine = [index for index in range(len(scores)) if index // 2 % 2 == row]
            most = self.most[row].value
            for index in mine:
                most = k.math.max(most, scores[index])
            most = self.across(most, k.math.max)
            factors.append(k.math.exp2((self.most[row] - most) * self.scale))
            total = self.sums[row] * factors[row]
            for index in mine:
                weights[index] = k.math.exp2((scores[index] - most) * self.scale)
                total = total + weights[index]
            self.sums[row].set(total)
            self.most[row].set(most)
        return weights, factors

    def scaled(self, acc, factors):
        acc.set([value * factors[index // 2 % 2] for index, value in enumerate(acc.values())])

    def finish(self, acc):
        add = lambda a, b: a + b  # noqa: E731
        self.scaled(acc, [self.k.math.reciprocal(self.across(total.value, add)) for total in self.sums])


def packed(k, weights):
    pairs = zip(weights[::2], weights[1::2], strict=True)
    return [k.convert.pack("f16x2", low, high).bitcast(nvb.u32) for low, high in pairs]


def fragments_of(k, words):
    return [k.wgmma.fragment(words[4 * step : 4 * step + 4], f16) for step in range(4)]


def multiply_values(k, acc, fragments, values):
    k.wgmma.fence()
    for step, fragment in enumerate(fragments):
        k.wgmma.mma_async(acc, fragment, values, WEIGHTED, b_at=(0, 16 * step))
    k.wgmma.commit_group()


@nvb.kernel("sm_90a", threads=128)
def one_warpgroup(k, q: MATRIX, keys: MATRIX, values: MATRIX, o: OUT, blocks: i32, scale: f32):
    tq, tk, tv = k.shared_tile(TILE, name="q"), k.shared_tiles(TILE, 2, name="k"), k.shared_tiles(VALUES, 2, name="v")
    q_full, full = k.mbarrier.array(1, arrivals=1, name="q_full"), k.mbarrier.array(2, arrivals=1, name="full")
    k.mbarrier.ready()

    def load(stage, block):
        k.mbarrier.arrive(full + stage, expect_tx=2 * TILE.bytes)
        k.tma.load(tk.at(stage), keys, (block * 64, 0), full + stage)
        k.tma.load(tv.at(stage), values, (0, block * 64), full + stage)

    with k.one_thread():
        k.mbarrier.arrive(q_full, expect_tx=TILE.bytes)
        k.tma.load(tq, q, (k.block_id() * 64, 0), q_full)
        load(0, k.const(0, i32))
    k.mbarrier.wait(q_full, 0)
    scores, acc, softmax = k.wgmma.accumulator(64, name="scores"), k.wgmma.accumulator(64, name="o"), Softmax(k, scale)
    acc.fill(0.0)
    with k.range(blocks) as block:
        stage = block & 1
        with k.one_thread(), k.if_(block + 1 < blocks):
            load(stage ^ 1, block + 1)
        k.mbarrier.wait(full + stage, (block >> 1) & 1)
        scores.clear()
        with k.wgmma.group():
            multiply(k, scores, tq, tk.at(stage))
        weights, factors = softmax.step(scores.values())
        softmax.scaled(acc, factors)
        multiply_values(k, acc, fragments_of(k, packed(k, weights)), tv.at(stage))
        k.wgmma.wait_group(0)
        k.barrier.sync()
    softmax.finish(acc)
    k.store_accumulator(acc, o + k.block_id() * 4096, 64)


def refill(k, step, tiles, full, empty, source, place):
    """Load a tile into its stage once that is empty."""
    stage = step % tiles.count
    k.mbarrier.wait(empty + stage, (step // tiles.count & 1) ^ 1)
    k.mbarrier.arrive(full + stage, expect_tx=TILE.bytes)
    k.tma.load(tiles.at(stage), source, place, full + stage)


@nvb.kernel("sm_90a", threads=256, min_ctas=2)
def the_next_scores_while_the_last_weights_multiply(
    k, q: MATRIX, keys: MATRIX, values: MATRIX, o: OUT, blocks: i32, scale: f32
):
    """A producer; rings for keys and for values, given back one by one; two groups of mma in flight."""
    stages, tq = 2, k.shared_tile(TILE, name="q")
    tiles = (k.shared_tiles(TILE, stages, name="k"), k.shared_tiles(VALUES, stages, name="v"))
    q_full = k.mbarrier.array(1, arrivals=1, name="q_full")
    full, empty = ([k.mbarrier.array(stages, arrivals=one) for _ in "kv"] for one in (1, 128))
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(24)
        with k.one_thread():
            k.mbarrier.arrive(q_full, expect_tx=TILE.bytes)
            k.tma.load(tq, q, (k.block_id() * 64, 0), q_full)
            with k.range(blocks) as block:
                places = (keys, (block * 64, 0)), (values, (0, block * 64))
                for ring, place in zip(zip(tiles, full, empty, strict=True), places, strict=True):
                    refill(k, block, *ring, *place)
    with k.else_():
        k.setmaxnreg.inc(216)
        scores, acc, softmax = *(k.wgmma.accumulator(64, name=name) for name in ("scores", "o")), Softmax(k, scale)
        words = [k.var(k.const(0, u32), name="p") for _ in range(16)]

        k.mbarrier.wait(q_full, 0)

        def begin_scores(block):
            k.mbarrier.wait(full[0] + block % stages, (block // stages) & 1)
            scores.clear()
            k.wgmma.fence()
            multiply(k, scores, tq, tiles[0].at(block % stages))
            k.wgmma.commit_group()

        def begin_values(block, fragments):
            k.mbarrier.wait(full[1] + block % stages, (block // stages) & 1)
            multiply_values(k, acc, fragments, tiles[1].at(block % stages))

        def keep(weights):
            for word, value in zip(words, packed(k, weights), strict=True):
                word.set(value)

        begin_scores(k.const(0, i32))
        k.wgmma.wait_group(0)
        k.mbarrier.arrive(empty[0])
        acc.fill(0.0)
        keep(softmax.step(scores.values())[0])
        with k.range(1, blocks) as block:
            fragments = fragments_of(k, words)
            begin_scores(block)
            begin_values(block - 1, fragments)
            k.wgmma.wait_group(1)
            k.mbarrier.arrive(empty[0] + block % stages)
            weights, factors = softmax.step(scores.values())
            k.wgmma.wait_group(0)  # before the words that it multiplies are written again
            k.mbarrier.arrive(empty[1] + (block - 1) % stages)
            softmax.scaled(acc, factors)
            keep(weights)
        begin_values(blocks - 1, fragments_of(k, words))
        k.wgmma.wait_group(0)
        softmax.finish(acc)
        k.store_accumulator(acc, o + k.block_id() * 4096, 64)
