"""PTX by hand, synchronisation: polled mbarriers and their tokens, named barriers, registers, initialisation."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32, u64
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TILE, gemm, multiply, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "PTX by hand"


def turned(*counts, width=128):
    """y is x with each row turned round."""

    def launch(rows):
        x = small(rows, rows, width, kind=np.float32)
        return Launch(1, (x, Out(x[:, ::-1].copy()), rows))

    return lambda: [launch(rows) for rows in counts]


@scene(
    STYLE,
    turned(1, 2, 3, 8),
    why="try_wait may come back without the phase: the loop asks again.",
    variants={
        "lane_0_asks_for_its_warp": "One lane of each warp asks, and the warp's barrier passes on what it has seen.",
        "asks_without_blocking": "test_wait in the loop.",
    },
    asks_once=Mistake("try-wait", "The answer of try_wait is not looked at."),
    asks_until_it_fails=Mistake("try-wait", "The loop ends when the phase has not completed."),
    gives_up_after_some_tries=Mistake("try-wait", "The loop ends after three tries, whatever they answer."),
    lane_0_asks_for_itself=Mistake("read-before-wait", "Lane 0 asks, and no barrier of the warp is before the reads."),
    warp_0_asks_for_all=Mistake("read-before-wait", "Warp 0 asks, and the others read."),
    asks_for_the_other_stage=Mistake("read-before-wait", "The stage that is loaded next is asked for."),
    parity_of_the_row=Mistake("parity", "The parity is the row's own."),
    no_way_back=Mistake("refilled-early", "No barrier is between the reads of a stage and its next load."),
)
@nvb.kernel("sm_90a", threads=128)
def polled(k, x: OUT, y: OUT, rows: COUNT, *, mistake=None):
    wrong, thread = named(mistake), k.thread_id()
    stages = k.shared(f32, 2 * 128, align=128, name="stages")
    full = k.mbarrier.array(2, arrivals=1, name="full")
    k.mbarrier.ready()

    def load(row):
        stage = row & 1
        with k.if_((thread == 0) & (row < rows)):
            k.mbarrier.arrive(full + stage, expect_tx=512)
            k.bulk.load(stages + stage * 128, x + row * 128, 512, full + stage)

    def ask(stage, parity):
        tries = k.var(0)
        with k.loop():
            came = k.mbarrier.test(full + stage, parity=parity, blocking=not wrong("asks_without_blocking"))
            if wrong("asks_once"):
                k.break_()
            elif wrong("gives_up_after_some_tries"):
                tries += 1
                k.break_if(came | (tries == 3))
            else:
                k.break_if(~came if wrong("asks_until_it_fails") else came)

    load(k.const(0, i32))
    with k.range(rows) as row:
        stage = row & 1
        load(row + 1)
        asked = k.select(row + 1 < rows, stage ^ 1, stage) if wrong("asks_for_the_other_stage") else stage
        parity = row & 1 if wrong("parity_of_the_row") else row >> 1 & 1
        if wrong("lane_0_asks_for_its_warp") or wrong("lane_0_asks_for_itself"):
            with k.if_(thread % 32 == 0):
                ask(asked, parity)
            if not wrong("lane_0_asks_for_itself"):
                k.warp.sync()
        elif wrong("warp_0_asks_for_all"):
            with k.if_(k.warp_id() == 0):
                ask(asked, parity)
        else:
            ask(asked, parity)
        y[row * 128 + thread] = stages[stage * 128 + 127 - thread]
        if not wrong("no_way_back"):
            k.barrier.sync()


@scene(
    STYLE,
    turned(1, 2, 5),
    why="Each arrival gives the token of its phase, which is waited for by state and not by parity.",
    token_of_the_last_round=Mistake("parity", "Each round waits for the token that the round before has got."),
    nobody_waits_after_reading=Mistake("race", "The row is written again with no wait for those who read it."),
    one_warp_does_not_arrive=Mistake("accounting", "96 threads arrive in each second phase, and 128 are counted."),
    counts_one_warp_less=Mistake("accounting", "The count is 96, and 128 threads arrive."),
    last_round_does_not_wait=Mistake("race", "In the last round the row is read without a wait."),
)
@nvb.kernel("sm_80", threads=128)
def tokens(k, x: OUT, y: OUT, rows: COUNT, *, mistake=None):
    """An mbarrier in place of a barrier of the CTA, two phases a row."""
    wrong, thread = named(mistake), k.thread_id()
    row_of = k.shared(f32, 128, name="row")
    met = k.mbarrier.array(1, arrivals=96 if wrong("counts_one_warp_less") else 128, name="met")
    k.mbarrier.ready()
    before = k.var(k.const(0, u64)) if wrong("token_of_the_last_round") else None

    def wait(token):
        with k.loop():
            k.break_if(k.mbarrier.test(met, state=token))

    if before is not None:
        before.set(k.mbarrier.arrive(met, state=True))
        wait(before.value)
    with k.range(rows) as row:
        row_of[thread] = x[row * 128 + thread]
        token = k.mbarrier.arrive(met, state=True)
        if before is not None:
            wait(before.value)
            before.set(token)
        elif wrong("last_round_does_not_wait"):
            with k.if_(row + 1 < rows):
                wait(token)
        else:
            wait(token)
        y[row * 128 + thread] = row_of[127 - thread]
        if wrong("one_warp_does_not_arrive"):
            with k.if_(thread < 96):
                wait(k.mbarrier.arrive(met, state=True))
        else:
            token = k.mbarrier.arrive(met, state=True)
            if not wrong("nobody_waits_after_reading"):
                wait(token)


FULL, EMPTY = 1, 4


@scene(
    STYLE,
    turned(1, 3, 4, 8, width=64),
    why="From the fourth row on the writers wait; the readers arrive only where a writer still comes.",
    waits_at_the_first_row=Mistake("named-barrier", "The writers wait for a buffer that nobody had to give back."),
    always_gives_back=Mistake("named-barrier", "The readers wait in place of arriving, also where no writer comes."),
    arrives_for_half=Mistake("named-barrier", "The writers arrive for 64 threads, the readers wait for 128."),
    empty_of_two=Mistake("named-barrier", "Two barriers give three buffers back, in turns."),
    shares_an_id=Mistake("named-barrier", "A buffer is given back at the barrier that says it is full."),
    last_warp_leaves=Mistake("named-barrier", "A warp of the writers leaves before the last row."),
    reads_before_it_is_full=Mistake("race", "The readers wait after they have read."),
    writes_one_buffer_more=Mistake("ring-index", "The writers count four buffers where there are three."),
)
@nvb.kernel("sm_80", threads=128)
def named_barriers(k, x: OUT, y: OUT, rows: COUNT, *, mistake=None):
    """Two warps write rows of 64 into three buffers, two read them: bar.arrive and bar.sync."""
    wrong, thread = named(mistake), k.thread_id()
    buffers = k.shared(f32, 3 * 64, name="buffers")
    gives = lambda row: (FULL if wrong("shares_an_id") else EMPTY) + row % (2 if wrong("empty_of_two") else 3)  # noqa: E731
    with k.if_(thread < 64), k.range(rows) as row:
        if wrong("last_warp_leaves"):
            k.return_if((row + 1 == rows) & (thread >= 32) & (rows > 1))
        with k.if_(row >= (0 if wrong("waits_at_the_first_row") else 3)):
            k.barrier.sync(gives(row), 128)
        buffers[row % (4 if wrong("writes_one_buffer_more") else 3) * 64 + thread] = x[row * 64 + thread]
        k.barrier.arrive(FULL + row % 3, 64 if wrong("arrives_for_half") else 128)
    with k.else_(), k.range(rows) as row:
        if not wrong("reads_before_it_is_full"):
            k.barrier.sync(FULL + row % 3, 128)
        value = buffers[row % 3 * 64 + 127 - thread]
        if wrong("reads_before_it_is_full"):
            k.barrier.sync(FULL + row % 3, 128)
        y[row * 64 + thread - 64] = value
        if wrong("always_gives_back"):
            k.barrier.sync(gives(row), 128)
        else:
            with k.if_(row + 3 < rows):
                k.barrier.arrive(gives(row), 128)


@scene(
    STYLE,
    lambda: [gemm(1, 1, steps, steps, tile=128) for steps in (1, 2, 5)],
    why="The two consumers take 504 - 40 registers: what the producer has given back, to the last one.",
    takes_eight_more=Mistake("register-pool", "The consumers ask for eight registers a thread more than there are."),
    gives_after_its_work=Mistake("register-pool", "The producer gives back at its end, and the consumers wait."),
    gives_if_there_is_more=Mistake("register-pool", "The producer gives back only where there are several steps."),
    gives_after_the_first_stage_is_read=Mistake("register-pool", "The producer waits for a consumer before it gives."),
)
@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def register_pool(k, a: nvb.TensorMap(nvb.f16, box=(128, 64)), b: MATRIX, c: OUT, steps: COUNT, *, mistake=None):
    wrong, tall = named(mistake), nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, nvb.f16, 128, 64)
    ta, tb = k.shared_tile(tall, name="a"), k.shared_tile(TILE, name="b")
    full, empty = k.mbarrier.array(1, arrivals=1, name="full"), k.mbarrier.array(1, arrivals=2, name="empty")
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0):
        late = wrong("gives_after_its_work") or wrong("gives_after_the_first_stage_is_read")
        if wrong("gives_if_there_is_more"):
            with k.if_(steps > 1):
                k.setmaxnreg.dec(40)
        elif not late:
            k.setmaxnreg.dec(40)
        with k.one_thread(), k.range(steps) as step:
            k.mbarrier.wait(empty, step & 1 ^ 1)
            k.mbarrier.arrive(full, expect_tx=tall.bytes + TILE.bytes)
            k.tma.load(ta, a, (0, step * 64), full)
            k.tma.load(tb, b, (0, step * 64), full)
        if wrong("gives_after_the_first_stage_is_read"):
            k.mbarrier.wait(empty, steps & 1 ^ 1)
        if late:
            k.setmaxnreg.dec(40)
    with k.else_():
        k.setmaxnreg.inc(240 if wrong("takes_eight_more") else 232)
        me, acc = k.warpgroup_id() - 1, k.wgmma.accumulator(64)
        with k.range(steps) as step:
            k.mbarrier.wait(full, step & 1)
            with k.wgmma.group():
                multiply(k, acc, ta.rows_from(me, 64), tb)
            k.mbarrier.arrive(empty, when=k.thread_id() % 128 == 0)
        k.store_accumulator(acc, c + me * 4096, 64)
    k.barrier.sync()  # nobody's registers come back by an early end


@scene(
    STYLE,
    turned(1, 2, 5),
    why="Each warp's first lane initialises an mbarrier and fences, and a barrier of the CTA follows.",
    variants={"one_thread_initialises": "Thread 0 initialises all four."},
    every_lane_initialises=Mistake("init", "All lanes of a warp initialise the same mbarrier."),
    two_warps_initialise=Mistake("init", "The first mbarrier is initialised by two warps, one after the other."),
    initialised_in_each_round=Mistake("init", "The mbarriers are initialised again in every round."),
    another_warp_does_not_wait=Mistake("init", "No barrier is between the initialisation and other warps' waits."),
    last_is_not_initialised=Mistake("init", "Three of four mbarriers are initialised."),
)
@nvb.kernel("sm_90a", threads=128)
def an_mbarrier_each_warp(k, x: OUT, y: OUT, rows: COUNT, *, mistake=None):
    """Each warp loads a quarter of the row, and reads its counterpart's."""
    wrong, thread = named(mistake), k.thread_id()
    warp, lane = k.warp_id(), k.lane_id()
    buffer, full = k.shared(f32, 128, align=128, name="row"), k.shared(u64, 4, align=8, name="full")

    def initialise(first=0):
        if wrong("one_thread_initialises"):
            with k.if_(thread == 0):
                for index in range(4):
                    k.mbarrier.init(full + index, 1)
        else:
            holds = lane >= 0 if wrong("every_lane_initialises") else lane == 0
            with k.if_(holds & (warp < 3) if wrong("last_is_not_initialised") else holds):
                k.mbarrier.init(full + warp, 1)
            if wrong("two_warps_initialise"):
                with k.if_((lane == 0) & (warp == 1)):
                    k.mbarrier.init(full, 1)
        k.fence.mbarrier_init()
        if not wrong("another_warp_does_not_wait"):
            k.barrier.sync()

    initialise()
    with k.range(rows) as row:
        if wrong("initialised_in_each_round"):
            initialise()
        with k.if_(lane == 0):
            k.mbarrier.arrive(full + warp, expect_tx=128)
            k.bulk.load(buffer + warp * 32, x + (row * 128 + warp * 32), 128, full + warp)
        k.mbarrier.wait(full + (3 - warp), 0 if wrong("initialised_in_each_round") else row & 1)
        y[row * 128 + thread] = buffer[127 - thread]
        k.barrier.sync()
