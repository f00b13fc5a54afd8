"""Rings whose stages are a parameter that declares a few values: loops make enough rounds to come round in each.

The witness is NumPy: a wrong wrap of the ring gives wrong numbers in some order of the warps.
"""

from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import f32, i32, u32

F32 = nvb.Pointer(f32, align=16)
MOST = 4
ORDERED = {"async-copy.read-before-wait", "shared.overwritten-early", "dry-run.unwritten"}
Wrap = Callable[[nvb.KernelBuilder, nvb.Value, nvb.Value], nvb.Value]
"""The stage after one, of so many."""


def _compared(k: nvb.KernelBuilder, stage: nvb.Value, stages: nvb.Value) -> nvb.Value:
    variable = k.var(stage + 1)
    with k.if_(variable == stages):
        variable.set(0)
    return variable.value


WRAPS: dict[str, Wrap] = {
    "compared": _compared,
    "remainder": lambda k, stage, stages: (stage + 1) % stages,
    "chosen": lambda k, stage, stages: k.select(stage == stages - 1, k.const(0, i32), stage + 1),
}


def _ring(wrap: Wrap, apart: int) -> nvb.KernelDefinition:
    """Copies two steps ahead; what is written comes round at `apart` stages more than what is read."""

    @nvb.kernel("sm_80", threads=64)
    def ring(k, x: F32, y: F32, n: i32(minimum=1), stages: i32(minimum=3, maximum=MOST)):
        box, t = k.shared(f32, (MOST + 1) * 256, align=16, name="box"), k.thread_id()
        for step in range(2):
            with k.if_(step < n):
                k.cp_async.copy(box + (step * 64 + t) * 4, x + (step * 64 + t) * 4, 16)
            k.cp_async.commit_group()
        read, write = k.var(0), k.var(2)
        with k.range(n) as i:
            k.cp_async.wait_group(1)
            k.barrier.sync()
            (y + (i * 64 + t) * 4).store(*(box + (read * 64 + (63 - t)) * 4).load(4))
            with k.if_(i + 2 < n):
                k.cp_async.copy(box + (write * 64 + t) * 4, x + ((i + 2) * 64 + t) * 4, 16)
            k.cp_async.commit_group()
            read.set(wrap(k, read.value, stages))
            write.set(wrap(k, write.value, stages + apart))

    return ring


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_ring_that_comes_round_is_judged(wrap: str) -> None:
    _ring(WRAPS[wrap], 0).build()
    with pytest.raises(nvb.DiagnosticError) as caught:
        _ring(WRAPS[wrap], 1).build()
    assert {one.rule_id for one in caught.value.diagnostics} <= ORDERED


def _copied(most: int | None, by: int, wide: int) -> nvb.KernelDefinition:
    """A bulk copy of `by` bytes for each of n elements, into room for `wide` of four bytes."""

    @nvb.kernel("sm_90", threads=64)
    def copied(k, x: F32, y: F32, n: i32(minimum=4, maximum=most, multiple_of=4)):
        box = k.shared(f32, wide, align=128, name="box")
        full = k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        with k.one_thread(0):
            k.mbarrier.arrive(full, expect_tx=n * by)
            k.bulk.load(box, x, n * by, full)
        k.mbarrier.wait(full, 0)
        with k.if_(k.thread_id() < n):
            y[k.thread_id()] = box[n - 1 - k.thread_id()]

    return copied


@pytest.mark.parametrize(("most", "by", "wide"), [(64, 4, 64), (None, 4, 64), (32, 8, 64), (60, 4, 60), (None, 8, 64)])
def test_what_a_declared_range_admits(most: int | None, by: int, wide: int) -> None:
    """A count without a maximum is the author's to promise."""
    assert list(_copied(most, by, wide).build().diagnostics) == []


@pytest.mark.parametrize(("most", "by", "wide"), [(64, 8, 64), (68, 4, 64), (64, 4, 60)])
def test_an_end_of_a_declared_range_that_does_not_fit(most: int, by: int, wide: int) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        _copied(most, by, wide).build()
    assert {one.rule_id for one in caught.value.diagnostics} == {"shared.bounds"}
    assert most * by > 4 * wide


def _drawn(by: int, given: int) -> nvb.KernelDefinition:
    """A warp draws numbers of tiles and hands them on in two stages; who reads goes on by so many stages.

    `given` is how far beside its stage a reader gives back.
    """

    @nvb.kernel("sm_90", threads=96)
    def drawn(k, y: nvb.Pointer[i32], counter: nvb.Pointer[u32], tiles: i32(minimum=1)):
        number = k.shared(i32, 2, name="number")
        posted = k.mbarrier.array(2, arrivals=1, name="posted")
        taken = k.mbarrier.array(2, arrivals=64, name="taken")
        k.mbarrier.ready()
        turn, thread = k.var(0), k.thread_id()
        with k.one_thread(2), k.loop():
            stage = turn % 2
            k.mbarrier.wait(taken + stage, (turn // 2 & 1) ^ 1)
            tile = k.atomic.add(counter, k.const(1, u32)).to(i32)
            number[stage] = tile
            k.mbarrier.arrive(posted + stage)
            k.break_if(tile >= tiles)
            turn += 1
        with k.if_(thread < 64), k.loop():
            stage = turn % 2
            k.mbarrier.wait(posted + stage, turn // 2 & 1)
            tile = number[stage]
            k.mbarrier.arrive(taken + (stage + given) % 2)
            k.break_if(tile >= tiles)
            y[tile * 64 + thread] = tile
            turn += by

    return drawn


def test_a_loop_that_ends_by_data_comes_round_in_its_ring() -> None:
    _drawn(1, 0).build()
    for by, given in ((2, 0), (1, 1)):
        with pytest.raises(nvb.DiagnosticError) as caught:
            _drawn(by, given).build()
        assert {one.rule_id for one in caught.value.diagnostics} <= {"mbarrier.deadlock", "dry-run.overrun"}


def _drawn_and_set_back(rounds: int) -> nvb.KernelDefinition:
    """As above, where who draws the last number sets the counter back, and tiles take long.

    A stage is waited for as if it were filled again after so many `rounds`.
    """

    @nvb.kernel("sm_90", threads=96)
    def drawn(k, y: nvb.Pointer[i32], counter: nvb.Pointer[u32], tiles: i32(minimum=1)):
        number = k.shared(i32, 2, name="number")
        posted = k.mbarrier.array(2, arrivals=1, name="posted")
        taken = k.mbarrier.array(2, arrivals=64, name="taken")
        k.mbarrier.ready()
        turn, thread, tile = k.var(0), k.thread_id(), k.var(k.block_id())
        with k.one_thread(2), k.loop():
            stage = turn % 2
            k.mbarrier.wait(taken + stage, turn // rounds % 2 ^ 1)
            number[stage] = tile
            k.mbarrier.arrive(posted + stage)
            k.break_if(tile >= tiles)
            following = k.atomic.add(counter, k.const(1, u32)).to(i32) + k.block_count()
            with k.if_(following == tiles + k.block_count() - 1):
                counter.store(0, order="relaxed", scope="gpu")
            tile.set(following)
            turn += 1
        with k.if_(thread < 64), k.loop():
            stage = turn % 2
            k.mbarrier.wait(posted + stage, turn // 2 & 1)
            mine = k.var(number[stage])
            k.mbarrier.arrive(taken + stage)
            k.break_if(mine >= tiles)
            with k.range(200):
                k.barrier.sync(1, 64, aligned=False)
            y[mine * 64 + thread] = mine
            turn += 1

    return drawn


def test_who_draws_the_last_number_is_asked_in_another_run_too() -> None:
    """In the first run it is the first one: no stage is filled again."""
    _drawn_and_set_back(2).build()
    with pytest.raises(nvb.DiagnosticError) as caught:
        _drawn_and_set_back(3).build()
    assert {one.rule_id for one in caught.value.diagnostics} == {"mbarrier.deadlock"}


ADMITS: dict[str, Callable[[nvb.KernelBuilder, nvb.Value], None]] = {
    "both ends": lambda k, stages: k.assume((stages >= 2) & (stages <= MOST)),
    "one by one": lambda k, stages: [k.assume(stages > 1), k.assume(stages < MOST + 1)],
    "by its half": lambda k, stages: k.assume((stages // 2 >= 1) & (stages // 2 <= MOST // 2) & (stages != 2 * MOST)),
}


def _of_two_rings(admits: str, wrong: str) -> nvb.KernelDefinition:
    """A warp copies rows from a ring of some stages to another one of some, for a third warp to store."""

    @nvb.kernel("sm_90", threads=96)
    def kernel(k, x: nvb.Pointer(f32, align=128), y: nvb.Pointer[f32], rows: i32(minimum=1), first: i32, second: i32):
        for stages in (first, second):
            ADMITS[admits](k, stages)
        boxes = [k.shared(f32, (MOST + 1) * 32, align=128, name=name) for name in ("taken", "given")]
        full, empty = (
            [k.mbarrier.array(MOST + 1, arrivals=1, name=f"{kind}_{name}") for name in "ab"]
            for kind in ("full", "empty")
        )
        k.mbarrier.ready()
        lane = k.lane_id()
        with k.one_thread(0), k.range(rows) as row:
            stage = row % first
            k.mbarrier.wait(empty[0] + stage, (row // first & 1) ^ 1)
            k.mbarrier.arrive(full[0] + stage, expect_tx=128)
            k.bulk.load(boxes[0] + stage * 32, x + row * 32, 128, full[0] + stage)
        with k.if_(k.warp_id() == 1), k.range(rows) as row:
            of = first if wrong == "the other ring" else second
            taken, given = row % first, row % of
            k.mbarrier.wait(full[0] + taken, row // (MOST if wrong == "laps of four" else first) & 1)
            k.mbarrier.wait(empty[1] + given, (row // of & 1) ^ 1)
            boxes[1][given * 32 + lane] = boxes[0][taken * 32 + lane]
            k.warp.sync()
            k.mbarrier.arrive(empty[0] + taken, when=lane == 0)
            k.mbarrier.arrive(full[1] + given, when=lane == 0)
        with k.if_(k.warp_id() == 2), k.range(rows) as row:
            stage = row % second
            k.mbarrier.wait(full[1] + stage, row // second & 1)
            y[row * 32 + lane] = boxes[1][stage * 32 + lane]
            k.warp.sync()
            k.mbarrier.arrive(empty[1] + stage, when=lane == 0)

    return kernel


@pytest.mark.parametrize("admits", ADMITS)
def test_stages_that_are_assumed_are_tried_as_those_that_are_declared(admits: str) -> None:
    """Mistakes that show where two rings have other numbers of stages, or where there are fewer than the most."""
    assert list(_of_two_rings(admits, "").build().diagnostics) == []
    for wrong in ("the other ring", "laps of four"):
        with pytest.raises(nvb.DiagnosticError) as caught:
            _of_two_rings(admits, wrong).build()
        assert {one.rule_id for one in caught.value.diagnostics} <= {"mbarrier.deadlock", "mbarrier.parity-counter"}
