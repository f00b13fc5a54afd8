"""tilelang: T.Pipelined as it is generated, one array of mbarriers, phases by division; a dequantised operand."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f16, u8
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TILE, chunk_of, gemm, multiply, named, product, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "tilelang"


@scene(
    STYLE,
    lambda: [gemm(1, 1, steps, steps) for steps in (1, 3, 4, 8)],
    why="One thread announces the bytes, without an arrival, and all 128 arrive: some of them before it announces.",
    variants={
        "one_warp_arrives_for_all": "The first warp's lanes arrive four times each, for their warpgroup.",
    },
    waits_for_the_stage_before=Mistake(
        "parity", "Each fill waits for the release of the stage before it, whose next release it does not hold back."
    ),
    waits_for_the_first_release=Mistake("parity", "The producer waits for the parity of the round, not the other one."),
    parity_by_the_stage=Mistake("parity", "The parity is computed from the stage instead of the round."),
    parity_is_the_round=Mistake("parity", "The wait is for the number of the round instead of its parity."),
    last_step_by_the_wrong_round=Mistake(
        "parity", "The last step, after the loop, waits for the round of one more step."
    ),
    waits_for_the_release_before=Mistake("parity", "Each fill waits for the release that the one before needs."),
    announces_after_arriving=Mistake("accounting", "The announcing thread has arrived: the phase may have completed."),
    counts_one=Mistake("accounting", "Full counts one arrival and 128 threads arrive."),
    every_warp_announces=Mistake("accounting", "One thread of each warp announces the bytes that come once."),
    releases_in_flight=Mistake("released-early", "The stage is given back with its product in flight."),
)
@nvb.kernel("sm_90a", threads=256)
def generated_pipeline(k, a: MATRIX, b: MATRIX, c: OUT, steps: COUNT, *, mistake=None):
    """mbarrier[0:3] are full, mbarrier[3:6] empty."""
    wrong, thread = named(mistake), k.thread_id()
    ta, tb = (k.shared_tiles(TILE, 3, name=name) for name in "ab")
    full = k.mbarrier.array(3, arrivals=1 if wrong("counts_one") else 128, name="full")
    empty = k.mbarrier.array(3, arrivals=128, name="empty")
    k.mbarrier.ready()
    with k.if_(thread >= 128), k.range(steps) as step:
        stage, turn = step % 3, step % 6 // 3
        if wrong("waits_for_the_release_before"):
            with k.if_(step > 0):
                k.mbarrier.wait(empty + (step - 1) % 3, (step - 1) % 6 // 3 ^ 1)
        elif wrong("waits_for_the_stage_before"):
            k.mbarrier.wait(empty + (step + 2) % 3, turn ^ 1)
        else:
            k.mbarrier.wait(empty + stage, turn if wrong("waits_for_the_first_release") else turn ^ 1)
        if wrong("announces_after_arriving"):
            k.mbarrier.arrive(full + stage)
        with k.if_(k.elect() if wrong("every_warp_announces") else thread == 128):
            k.mbarrier.expect_tx(full + stage, 2 * TILE.bytes)
        with k.if_(thread == 128):
            k.tma.load(ta.at(stage), a, (0, step * 64), full + stage)
            k.tma.load(tb.at(stage), b, (0, step * 64), full + stage)
        if not wrong("announces_after_arriving"):
            k.mbarrier.arrive(full + stage)
    with k.else_():
        acc = k.wgmma.accumulator(64)

        def consume(step, parity):
            stage = step % 3
            k.mbarrier.wait(full + stage, parity)
            k.wgmma.fence()
            multiply(k, acc, ta.at(stage), tb.at(stage))
            k.wgmma.commit_group()
            k.wgmma.wait_group(1 if wrong("releases_in_flight") else 0)
            if wrong("one_warp_arrives_for_all"):
                with k.if_(thread < 32):
                    k.mbarrier.arrive(empty + stage, count=4)
            else:
                k.mbarrier.arrive(empty + stage)

        with k.range(steps - 1) as step:
            turn = step % 3 & 1 if wrong("parity_by_the_stage") else step // 3
            consume(step, turn if wrong("parity_is_the_round") else turn & 1)
        last = steps - 1
        consume(last, (steps if wrong("last_step_by_the_wrong_round") else last) // 3 & 1)
        k.wgmma.wait_group(0)
        k.store_accumulator(acc, c, 64)


def _quantised(*counts):
    def launch(steps):
        a = small(steps, 64, 64 * steps)
        codes = np.random.default_rng(steps).integers(0, 8, (steps, 64, 64)).astype(np.uint8)
        b = np.concatenate(list(codes), axis=1).astype(np.float32)
        return Launch(1, (a, codes, Out(product(a, b)), steps))

    return lambda: [launch(steps) for steps in counts]


@scene(
    STYLE,
    _quantised(1, 2, 3, 7),
    why="B is written again two steps later, when wait_group(1) has drained the product that read it.",
    no_fence=Mistake("proxy-fence", "The product reads what the threads wrote, with no proxy fence."),
    fence_before_the_stores=Mistake("proxy-fence", "The fence comes before the stores that it is for."),
    no_barrier=Mistake("race", "The product reads what other warps write, with no barrier between them."),
    one_buffer=Mistake("released-early", "B is written while the product in flight reads it."),
    leaves_two=Mistake("released-early", "The wait leaves two groups, so the one that reads the buffer."),
    releases_a_before_the_product=Mistake(
        "released-early", "A's stage is given back with the codes, before the product has read it."
    ),
    codes_before_their_wait=Mistake("read-before-wait", "The second warp reads the codes without waiting for them."),
    reads_the_next_codes=Mistake("read-before-wait", "Half of the rows are read from the next stage's codes."),
)
@nvb.kernel("sm_90a", threads=256)
def dequantised(k, a: MATRIX, codes: nvb.Pointer[u8], c: OUT, steps: COUNT, *, mistake=None):
    """B comes as bytes, which the consumers write as f16 into two buffers in turns."""
    wrong, stages, thread = named(mistake), 3, k.thread_id()
    ta, raw = k.shared_tiles(TILE, stages, name="a"), k.shared(u8, stages * 4096, align=128, name="codes")
    tb = k.shared_tiles(TILE, 2, name="b")
    full = k.mbarrier.array(stages, arrivals=1, name="full")
    read = k.mbarrier.array(stages, arrivals=128, name="read")
    multiplied = k.mbarrier.array(stages, arrivals=1, name="multiplied")
    k.mbarrier.ready()
    with k.if_(thread >= 128), k.one_thread(4), k.range(steps) as step:
        stage, before = step % stages, (step // stages & 1) ^ 1
        k.mbarrier.wait(read + stage, before)
        k.mbarrier.wait(multiplied + stage, before)
        k.mbarrier.arrive(full + stage, expect_tx=TILE.bytes + 4096)
        k.tma.load(ta.at(stage), a, (0, step * 64), full + stage)
        k.bulk.load(raw + stage * 4096, codes + step * 4096, 4096, full + stage)
    with k.else_():
        _dequantise(k, wrong, stages, (ta, raw, tb), (full, read, multiplied), c, steps)


def _dequantise(k, wrong, stages, tiles, barriers, c, steps):
    (ta, raw, tb), (full, read, multiplied), thread = tiles, barriers, k.thread_id()
    acc, first = k.wgmma.accumulator(64), thread == 0
    with k.range(steps) as step:
        stage, buffer = step % stages, step & 1
        if wrong("codes_before_their_wait"):
            with k.if_(k.warp_id() != 1):
                k.mbarrier.wait(full + stage, step // stages & 1)
        else:
            k.mbarrier.wait(full + stage, step // stages & 1)
        target = tb.at(0 if wrong("one_buffer") else buffer)
        if wrong("fence_before_the_stores"):
            k.fence.proxy_async()
        row = thread % 64
        for pair in range(4):
            chunk = thread // 64 + 2 * pair
            source = k.select(row >= 32, (step + 1) % stages, stage) if wrong("reads_the_next_codes") else stage
            values = (raw + (source * 4096 + row * 64 + chunk * 8)).load(8)
            chunk_of(target, row, chunk).store(*[value.to(f16) for value in values])
        k.mbarrier.arrive(read + stage)
        if not wrong("no_fence") and not wrong("fence_before_the_stores"):
            k.fence.proxy_async()
        if not wrong("no_barrier"):
            k.barrier.sync(1, 128)
        if wrong("releases_a_before_the_product"):
            k.mbarrier.arrive(multiplied + stage, when=first)
        k.wgmma.fence()
        multiply(k, acc, ta.at(stage), target)
        k.wgmma.commit_group()
        k.wgmma.wait_group(2 if wrong("leaves_two") else 1)
        if not wrong("releases_a_before_the_product"):
            k.mbarrier.arrive(multiplied + (step + stages - 1) % stages, when=first & (step > 0))
    k.wgmma.wait_group(0)
    k.store_accumulator(acc, c, 64)
