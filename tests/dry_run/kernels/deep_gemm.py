"""DeepGEMM: persistent, scale factors beside the tiles, sums promoted in registers, stages by division of a counter."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import nvbackend as nvb
from nvbackend import f32
from tests.dry_run.kernels.parts import COUNT, MATRIX, TILE, multiply, named, product, small, store_chunks
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "DeepGEMM"
STAGES = 4
SCALE_BYTES = 64 * 4


def _scaled(*counts):
    def launch(grid, tiles, steps):
        a, b = small(tiles, 64 * tiles, 64 * steps), small(steps, 64, 64 * steps)
        scales = np.random.default_rng(tiles).integers(1, 3, (tiles, steps, 64)).astype(np.float32)
        c = np.zeros((64 * tiles, 64), np.float32)
        for step in range(steps):
            part = slice(64 * step, 64 * step + 64)
            c += product(a[:, part], b[:, part]) * scales[:, step].reshape(-1, 1)
        return Launch(grid, (a, b, scales, Out(c.astype(np.float16)), tiles, steps))

    return lambda: [launch(*one) for one in counts]


class Ring:
    """Tiles and scale factors; a stage and its phase follow from how many steps there were before."""

    def __init__(self, k, wrong):
        self.k, self.wrong = k, wrong
        self.a, self.b = (k.shared_tiles(TILE, STAGES, name=name) for name in "ab")
        self.scales = k.shared(f32, STAGES * 64, align=128, name="scales")
        self.full = k.mbarrier.array(STAGES, arrivals=1, name="full")
        releases = 1 if wrong("one_warp_releases") else 4
        self.empty = k.mbarrier.array(STAGES, arrivals=releases, name="empty")

    def load(self, tile, steps, step, before, sources):
        k, stage, turn = self.k, (before + step) % STAGES, (before + step) // STAGES & 1
        a, b, scales = sources
        k.mbarrier.wait(self.empty + stage, turn ^ 1)
        beside = 0 if self.wrong("no_bytes_of_the_scales") else SCALE_BYTES
        k.mbarrier.arrive(self.full + stage, expect_tx=2 * TILE.bytes + beside)
        k.tma.load(self.a.at(stage), a, (tile * 64, step * 64), self.full + stage)
        of_b = 0 if self.wrong("b_to_the_first_stage") else stage
        k.tma.load(self.b.at(of_b), b, (0, step * 64), self.full + stage)
        source = scales + (tile * steps + step) * 64
        k.bulk.load(self.scales + stage * 64, source, SCALE_BYTES, self.full + stage)

    def consume(self, acc, sums, step, before):
        k, wrong, stage = self.k, self.wrong, (before + step) % STAGES
        turn = step // STAGES if wrong("phase_restarts_with_each_tile") else (before + step) // STAGES
        if wrong("one_warp_waits"):
            with k.if_(k.warp_id() == 0):
                k.mbarrier.wait(self.full + stage, turn & 1)
        else:
            k.mbarrier.wait(self.full + stage, turn & 1)
        of_scales = (before + step) % 3 if wrong("scales_by_another_ring") else stage
        row = k.warp_id() * 16 + k.lane_id() // 4
        release = (k.lane_id() == 0) & (k.warp_id() == 0) if wrong("one_warp_releases") else k.lane_id() == 0
        late = wrong("releases_before_the_scales") or wrong("one_warp_releases")
        factors = [] if late else [self.scales[of_scales * 64 + row + below] for below in (0, 8)]
        acc.clear()
        with k.wgmma.group():
            multiply(k, acc, self.a.at(stage), self.b.at(stage))
        k.mbarrier.arrive(self.empty + stage, when=release)
        if late:
            factors = [self.scales[of_scales * 64 + row + below] for below in (0, 8)]
        for index, (total, value) in enumerate(zip(sums, acc.values(), strict=True)):
            total.set(total + value * factors[index // 2 % 2])


@scene(
    STYLE,
    _scaled((2, 5, 3), (1, 1, 1), (1, 3, 5)),
    why="Each warp's lane 0 gives a stage back, when its sums need no more of it; a store is waited for a tile later.",
    phase_restarts_with_each_tile=Mistake("parity", "The consumers' phase is counted from the tile's first step."),
    counts_the_tiles_of_the_grid=Mistake("parity", "The consumers count the steps of all CTAs' tiles before."),
    no_bytes_of_the_scales=Mistake("accounting", "The bytes of the scale factors are not announced."),
    releases_before_the_scales=Mistake("released-early", "The scale factors are read after the stage is given back."),
    one_warp_releases=Mistake("released-early", "The first warp gives the stage back for all, which read scales yet."),
    one_warp_waits=Mistake("read-before-wait", "The first warp alone waits for the tiles that all four read."),
    scales_by_another_ring=Mistake("read-before-wait", "The scale factors are read as if there were three stages."),
    another_thread_waits_for_the_store=Mistake("bulk-group", "The wait is in the second warp, the store in the first."),
    nobody_waits_for_the_store=Mistake("bulk-group", "The next tile is staged while the store may read this one."),
    barrier_of_all_threads=Mistake("named-barrier", "The epilogue's barrier counts the producer's threads too."),
    no_barrier_after_the_wait=Mistake(
        "race", "The other warps stage a tile before the first has waited for the store."
    ),
    b_to_the_first_stage=Mistake("refilled-early", "B is always copied to the first stage, A to its own."),
    loads_one_step_less=Mistake("undrained", "The producer leaves out the last step of the CTA's last tile."),
)
@nvb.kernel("sm_90a", threads=256)
def scaled_persistent(
    k, a: MATRIX, b: MATRIX, scales: nvb.Pointer(f32), c: MATRIX, tiles: COUNT, steps: COUNT, *, mistake=None
):
    wrong = named(mistake)
    ring, out = Ring(k, wrong), k.shared_tile(TILE, name="out")
    k.mbarrier.ready()
    count = k.var(0)
    mine = lambda: k.range(k.block_id(), tiles, k.block_count(), name="tile")  # noqa: E731
    with k.if_(k.warpgroup_id() == 1), k.one_thread(4), mine() as tile:
        loaded = steps
        if wrong("loads_one_step_less"):
            loaded = k.select(tile + k.block_count() >= tiles, steps - 1, steps)
        with k.range(loaded) as step:
            ring.load(tile, steps, step, count * steps, (a, b, scales))
        count += 1
    with k.if_(k.warpgroup_id() == 0):
        acc, sums = k.wgmma.accumulator(64), [k.var(0.0, f32) for _ in range(32)]
        meet = lambda: k.barrier.sync(8, 256 if wrong("barrier_of_all_threads") else 128)  # noqa: E731
        first = k.thread_id() == 0
        with mine() as tile:
            for total in sums:
                total.set(0.0)
            before = (tile if wrong("counts_the_tiles_of_the_grid") else count.value) * steps
            with k.range(steps) as step:
                ring.consume(acc, sums, step, before)
            count += 1
            if wrong("no_barrier_after_the_wait"):
                meet()
            if not wrong("nobody_waits_for_the_store"):
                with k.if_(k.thread_id() == 32 if wrong("another_thread_waits_for_the_store") else first):
                    k.tma.wait_group(reading=True)
            if not wrong("no_barrier_after_the_wait"):
                meet()
            store_chunks(k, out, SimpleNamespace(values=lambda: [total.value for total in sums]))
            k.fence.proxy_async()
            meet()
            with k.if_(first):
                k.tma.store(c, (tile * 64, 0), out)
                k.tma.commit_group()
        with k.if_(first):
            k.tma.wait_group()
