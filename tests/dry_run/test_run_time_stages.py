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
