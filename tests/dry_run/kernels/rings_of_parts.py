"""Rings whose tiles are of different kinds, released apart, or of as many bytes as come."""

from __future__ import annotations

import itertools

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, named, product, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "nvbackend's ring"
MMA = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


def _two_operands(*counts: int):
    def launch(steps: int) -> Launch:
        q, keys, values = (small(seed, 64, 64 * columns) for seed, columns in ((1, 1), (2, steps), (3, steps)))
        q = np.tile(q, (1, steps))
        return Launch(1, (q[:, :64].copy(), keys, values, Out(product(q, keys) + product(q, values)), steps))

    return lambda: [launch(steps) for steps in counts]


@scene(
    STYLE,
    _two_operands(1, 2, 5),
    why="Values are multiplied after the keys, and each part gives its stages back on its own.",
    variants={"overlapped": "Values are multiplied a step late, while the keys of the next step are."},
    values_never_drained=Mistake("undrained", "Only keys are drained: no stage of the values comes free."),
    keys_drained_twice=Mistake("undrained", "Each step drains two stages of the keys, and one is filled."),
    keys_read_after_their_drain=Mistake("released-early", "The keys are multiplied after their stage is given back."),
    values_in_flight=Mistake("released-early", "The values are given back while they are multiplied."),
    values_to_the_keys_barrier=Mistake("accounting", "The values complete on the mbarrier of the keys."),
)
@nvb.kernel("sm_90a", threads=256, min_ctas=1)
def keys_and_values_apart(k, q: MATRIX, keys: MATRIX, values: MATRIX, c: OUT, steps: COUNT, *, mistake=None):
    """C = sum of Q (K + V)^T."""
    wrong = named(mistake)
    mma = k.tiled_mma(MMA)
    queries = k.pipeline(1, consumers=1, q=mma.smem_a(64))
    ring = k.pipeline(2, consumers=1, apart=True, key=mma.smem_b(64), value=mma.smem_b(64))
    k.mbarrier.ready()
    with k.producer(registers=40):
        with queries.fill() as stage:
            k.tma.load(stage.q, q, (0, 0), stage.full)
        with k.range(steps) as step:
            with ring.key.fill() as stage:
                k.tma.load(stage.key, keys, (0, step * 64), stage.full)
                full = stage.full
            with ring.value.fill() as stage:
                barrier = full if wrong("values_to_the_keys_barrier") else stage.full
                k.tma.load(stage.value, values, (0, step * 64), barrier)
        ring.finish()
    with k.consumers(registers=232):
        acc = mma.accumulator()

        def multiply(tile, in_flight=0):
            with k.wgmma.group(in_flight=in_flight):
                mma.accumulate(acc, held.q, tile)

        with queries.drain() as held:
            if wrong("overlapped"):
                with ring.key.drain() as stage:
                    multiply(stage.key)
                with k.range(steps - 1), ring.value.drain() as late, ring.key.drain() as stage:
                    multiply(stage.key, in_flight=1)
                    multiply(late.value)
                with ring.value.drain() as late:
                    multiply(late.value)
            else:
                with k.range(steps):
                    _step(wrong, ring, multiply)
            k.wgmma.wait_group(0, drains=[acc])
        k.store_accumulator(acc, c, 64)


def _step(wrong, ring, multiply):
    with ring.key.drain() as stage:
        if not wrong("keys_read_after_their_drain"):
            multiply(stage.key)
    if wrong("keys_read_after_their_drain"):
        multiply(stage.key)
    if wrong("keys_drained_twice"):
        with ring.key.drain():
            pass
    if not wrong("values_never_drained"):
        with ring.value.drain() as stage:
            multiply(stage.value, in_flight=1 if wrong("values_in_flight") else 0)


def _scaled(*counts: int):
    def launch(steps: int) -> Launch:
        a, b = small(1, 64, 64 * steps), small(2, 64, 64 * steps)
        scales = np.random.default_rng(steps).choice([0.5, 1, 2, 4], (steps, 64)).astype(np.float32)
        parts = (product(a[:, at : at + 64], b[:, at : at + 64]) for at in range(0, 64 * steps, 64))
        return Launch(
            1, (a, b, scales, Out(sum(s[:, None] * part for s, part in zip(scales, parts, strict=True))), steps)
        )

    return lambda: [launch(steps) for steps in counts]


@scene(
    STYLE,
    _scaled(1, 2, 5),
    why="A stage has two tiles by TMA and a vector by a bulk copy, which complete on one mbarrier.",
    variants={"apart": "The scales are read at once and given back before the product."},
    scales_not_copied=Mistake("accounting", "The bytes of the scales are announced and do not come."),
    scales_copied_twice=Mistake("accounting", "Twice as many bytes come as are announced."),
    scales_read_late=Mistake("released-early", "The scales are read after the stage is given back."),
    half_announced=Mistake("accounting", "Half of the bytes of the scales are announced, and all come."),
)
@nvb.kernel("sm_90a", threads=256, min_ctas=1)
def blocks_with_scales(k, a: MATRIX, b: MATRIX, scales: OUT, c: OUT, steps: COUNT, *, mistake=None):
    """C = sum over blocks of K of scales[block, row] * A B^T."""
    wrong = named(mistake)
    mma = k.tiled_mma(MMA)
    tiles = {"a": mma.smem_a(64), "b": mma.smem_b(64), "scale": (f32, 64)}
    apart = (("a", "b"), "scale") if wrong("apart") else False
    ring = k.pipeline(2, consumers=1, apart=apart, **tiles)
    of_tiles, of_scales = (ring.a, ring.scale) if wrong("apart") else (ring, ring)
    k.mbarrier.ready()
    with k.producer(registers=40), k.range(steps) as step:

        def load_scales(stage):
            if not wrong("scales_not_copied"):
                k.bulk.load(stage.scale, scales + step * 64, 256, stage.full)
            if wrong("scales_copied_twice"):
                k.bulk.load(stage.scale, scales + step * 64, 256, stage.full)

        with of_tiles.fill(bytes={"scale": 128} if wrong("half_announced") else None) as stage:
            k.tma.load(stage.a, a, (0, step * 64), stage.full)
            k.tma.load(stage.b, b, (0, step * 64), stage.full)
            if not wrong("apart"):
                load_scales(stage)
        if wrong("apart"):
            with of_scales.fill() as stage:
                load_scales(stage)
    with k.consumers(registers=232):
        part, total = mma.accumulator(), mma.accumulator("total")
        total.fill(0.0)
        with k.range(steps):
            _scaled_step(k, wrong, mma, of_tiles, of_scales, part, total)
        k.store_accumulator(total, c, 64)


def _scaled_step(k, wrong, mma, of_tiles, of_scales, part, total):
    def scaled(stage):
        return part.rows(lambda row: stage.scale[row])

    part.clear()
    if wrong("apart"):
        with of_scales.drain() as stage:
            factors = scaled(stage)
            k.barrier.sync(1, 128)
    with of_tiles.drain() as stage:
        with k.wgmma.group(in_flight=0):
            mma.accumulate(part, stage.a, stage.b)
        if not wrong("apart") and not wrong("scales_read_late"):
            factors = scaled(stage)
            k.barrier.sync(1, 128)
    if wrong("scales_read_late"):
        factors = scaled(stage)
    total.set(total.elements() + part.elements() * factors)


def _pieces(*lengths: tuple[int, ...]):
    def launch(*sizes: int) -> Launch:
        ends = np.cumsum((0, *sizes)).astype(np.int32)
        x = small(len(sizes), int(ends[-1]), kind=np.float32)
        sums = np.array([x[first:last].sum() for first, last in itertools.pairwise(ends)], np.float32)
        return Launch(1, (x, ends, Out(sums), len(sizes)))

    return lambda: [launch(*sizes) for sizes in lengths]


@scene(
    STYLE,
    _pieces((128, 4, 0, 64), (4,), (64, 128, 128, 128, 128, 8)),
    why="A stage has room for 128 numbers, and as many bytes are announced as come.",
    all_announced=Mistake("accounting", "All bytes of a stage are announced, and some of them come."),
)
@nvb.kernel("sm_90a", threads=256)
def pieces_of_any_length(k, x: OUT, ends: nvb.Pointer[nvb.i32], sums: OUT, pieces: COUNT, *, mistake=None):
    """sums[i] = sum(x[ends[i] : ends[i + 1]]), by bulk copies of raw bytes."""
    wrong = named(mistake)
    ring = k.pipeline(3, consumers=1, piece=512)
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(pieces) as piece:
        first, size = ends[piece], (ends[piece + 1] - ends[piece]) * 4
        with ring.fill(bytes=None if wrong("all_announced") else {"piece": size}) as stage, k.if_(size > 0):
            k.bulk.load(stage.piece, x + first, size, stage.full)
    with k.else_(), k.range(pieces) as piece, ring.drain() as stage:
        thread, length = k.thread_id() - 128, ends[piece + 1] - ends[piece]
        value = k.var(0.0, f32)
        with k.if_(thread < length):
            value.set(stage.piece.cast(f32)[thread])
        total = k.warp.reduce("add", value.value)
        with k.if_((k.lane_id() == 0) & (total != 0.0)):
            (sums + piece).atomic("add", total)
        k.barrier.sync(1, 128)
