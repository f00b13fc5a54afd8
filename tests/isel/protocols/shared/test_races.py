"""Races in shared memory: found where threads, bytes and order are certain, and only there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvbackend import KernelBuilder, f16, i32, u32
from nvbackend.diagnostics import Diagnostic
from nvbackend.isel.protocols.shared.races import check_shared_races, find_races
from nvbackend.signature import Parameter, Pointer, Scalar

MISSING, EARLY = "shared.missing-barrier", "shared.overwritten-early"


class Program:
    """A kernel of four warps with one buffer; calls short enough to read."""

    def __init__(self, target: str = "sm_90a") -> None:
        parameters = [Parameter("n", Scalar(i32)), Parameter("p", Pointer(u32, 16))]
        self.k = KernelBuilder("kernel", target, threads=128, parameters=parameters)
        self.n, self.pointer = self.k.arguments
        self.buffer = self.k.shared(u32, 1024, align=128, name="buffer")
        self.flag = self.k.mbarrier.array(1, 128, name="flag")
        self.k.mbarrier.ready()

    @property
    def thread(self):
        return self.k.thread_id()

    def write(self, place=None) -> None:
        (self.buffer + (self.thread if place is None else place)).store(1)

    def read(self, place=None) -> None:
        (self.buffer + (127 - self.thread if place is None else place)).load()

    def found(self) -> list[Diagnostic]:
        self.k.return_()
        self.k.core.link()
        return check_shared_races(self.k.machine)

    def rules(self) -> list[str]:
        return [one.rule_id for one in self.found()]


Step = Callable[[Program], object]


def between(step: Step) -> list[str]:
    p = Program()
    p.write()
    step(p)
    p.read()
    return p.rules()


class TestOrder:
    """What orders a write and a read of other threads, and what does not."""

    @pytest.mark.parametrize(
        "step",
        [
            lambda p: None,
            lambda p: p.k.fence.proxy_async(),
            lambda p: p.k.warp.sync(),
            lambda p: p.k.elect(),
            lambda p: p.k.mbarrier.arrive(p.flag),
        ],
    )
    def test_not_ordered(self, step: Step) -> None:
        assert between(step) == [MISSING]

    @pytest.mark.parametrize(
        "step",
        [
            lambda p: p.k.barrier.sync(),
            lambda p: p.k.barrier.sync(1, threads=128),
            lambda p: p.k.cluster.sync(),
            lambda p: p.k.mbarrier.wait(p.flag, 0),
            lambda p: p.k.fence.membar("cta"),
        ],
    )
    def test_ordered(self, step: Step) -> None:
        assert between(step) == []

    def test_a_named_barrier_orders_its_own_threads(self) -> None:
        p = Program()
        p.write()
        p.k.barrier.sync(p.k.warp_id() // 2 + 1, threads=64)
        p.read(p.thread ^ 32)
        assert p.rules() == []

    def test_where_it_is_said_and_of_whom(self) -> None:
        p = Program()
        p.write()
        p.read()
        (found,) = p.found()
        assert "thread 0 reads byte 508, which thread 127 writes" in found.message
        assert [note for note, _ in found.notes] == ["it is written here"]

    def test_one_barrier_is_asked_for_once(self) -> None:
        p = Program()
        other = p.k.shared(u32, 128, name="other")
        p.write()
        other[p.thread] = 1
        p.read()
        other[127 - p.thread]
        p.read()
        assert p.rules() == [MISSING]

    def test_each_missing_barrier_is_asked_for(self) -> None:
        p = Program()
        p.write()
        p.read()
        p.write()
        assert p.rules() == [MISSING, EARLY]


class TestPlaces:
    """Bytes that two threads certainly share."""

    @pytest.mark.parametrize(
        "place",
        [
            lambda p: p.thread,  # its own
            lambda p: p.thread ^ 1,  # of its warp, which many take to run in step
            lambda p: p.thread + 128,  # nobody's
            lambda p: p.thread % 32 + 512,
            lambda p: p.pointer[p.thread].to(i32),  # who knows
        ],
    )
    def test_not_shared(self, place: Callable[[Program], object]) -> None:
        p = Program()
        at = place(p)
        p.write()
        p.read(at)
        assert p.rules() == []

    def test_a_step_that_is_the_same_in_both(self) -> None:
        p = Program()
        with p.k.range(p.n) as step:
            p.k.barrier.sync()
            p.write(p.thread + step % 4 * 128)
            p.read(p.thread ^ 64)  # of who knows which stage
            p.k.barrier.sync()
            p.write(p.thread + step % 4 * 128)
            p.read((p.thread ^ 64) + step % 4 * 128)
        assert p.rules() == [MISSING]

    def test_a_value_that_may_be_another_in_each_thread(self) -> None:
        p = Program()
        base = p.pointer[p.thread].to(i32)
        p.write(base)
        p.read(base + 1 - 1)
        assert p.rules() == []

    def test_matrices(self) -> None:
        p = Program()
        p.k.mma.stmatrix((p.buffer + p.thread * 4), [p.k.const(0, u32)] * 4)
        p.k.mma.ldmatrix((p.buffer + (p.thread ^ 32) * 4).cast(f16), 4)
        assert p.rules() == [MISSING]

    def test_matrices_of_the_warp_itself(self) -> None:
        p = Program()
        p.k.mma.stmatrix((p.buffer + p.thread * 4), [p.k.const(0, u32)] * 4)
        p.k.mma.ldmatrix((p.buffer + (p.thread ^ 16) * 4).cast(f16), 4)
        assert p.rules() == []

    def test_copies_that_were_waited_for_by_their_own_thread(self) -> None:
        p = Program()
        p.k.cp_async.copy(p.buffer + p.thread, p.pointer + p.thread, 4)
        p.k.cp_async.commit_group()
        p.k.cp_async.wait_group(0)
        p.read()
        assert p.rules() == [MISSING]

    def test_copies_that_come_behind_the_barrier(self) -> None:
        for first in (True, False):
            p = Program()
            p.k.cp_async.copy(p.buffer + p.thread, p.pointer + p.thread, 4)
            p.k.cp_async.commit_group()
            for wait in (first, not first):
                if wait:
                    p.k.cp_async.wait_group(0)
                else:
                    p.k.barrier.sync()
            p.read()
            assert p.rules() == ([] if first else [MISSING])

    def test_copies_that_arrive_before_the_wait(self) -> None:
        p = Program()
        full = p.k.mbarrier.array(1, arrivals=p.k.threads)
        p.k.mbarrier.ready()
        p.k.cp_async.copy(p.buffer + p.thread, p.pointer + p.thread, 4)
        p.k.cp_async.mbarrier_arrive(full, no_increment=True)
        p.k.mbarrier.wait(full, 0)
        p.k.cp_async.wait_group()
        p.read()
        assert p.rules() == []


class TestWho:
    """Threads that certainly come to both."""

    def test_one_thread_for_all(self) -> None:
        p = Program()
        with p.k.if_(p.thread == 0):
            p.write(0)
        p.read(0)
        assert p.rules() == [MISSING]

    def test_an_elected_thread(self) -> None:
        p = Program()
        p.write()
        with p.k.one_thread(1):
            p.read(0)
        assert p.rules() == [MISSING]

    def test_an_elected_thread_of_the_warp_that_wrote(self) -> None:
        p = Program()
        p.write()
        with p.k.one_thread(0):
            p.read(0)
        assert p.rules() == []

    def test_the_other_side_of_a_branch(self) -> None:
        p = Program()
        with p.k.if_(p.k.warp_id() < 2):
            p.write(p.thread)
        with p.k.if_(p.k.warp_id() >= 2):
            p.read(p.thread - 64)
        assert p.rules() == [MISSING]

    @pytest.mark.parametrize("condition", [lambda p: p.n > 3, lambda p: p.pointer[p.thread] > 3])
    def test_what_may_not_be_executed(self, condition: Callable[[Program], object]) -> None:
        p = Program()
        with p.k.if_(condition(p)):
            p.write()
        p.read()
        assert p.rules() == []

    def test_a_condition_that_is_the_same_for_all(self) -> None:
        p = Program()
        with p.k.if_(p.n > 3):
            p.write()
            p.read()
        assert p.rules() == [MISSING]

    def test_threads_that_may_be_alone(self) -> None:
        p = Program()
        with p.k.if_(p.pointer[p.thread] > 3):
            p.write()
            p.read()
        assert p.rules() == []

    def test_behind_a_return_of_some(self) -> None:
        p = Program()
        p.k.return_if(p.thread >= p.n)
        p.write()
        p.read()
        assert p.rules() == []

    def test_in_a_loop_that_threads_leave(self) -> None:
        p = Program()
        with p.k.range(p.n):
            p.write()
            p.read()
            p.k.break_if(p.thread >= p.n)
        assert p.rules() == []

    def test_another_way_that_acquires(self) -> None:
        """The reader waits on its own side of a branch, for the writer's arrival."""
        p = Program()
        with p.k.if_(p.k.warp_id() == 0):
            p.write(p.thread)
            p.k.mbarrier.arrive(p.flag)
        with p.k.else_():
            p.k.mbarrier.wait(p.flag, 0)
        p.read(p.thread % 32)
        assert p.rules() == []

    def test_one_warp_after_the_other(self) -> None:
        """Each warp waits for the one before, so what looks unordered is a chain."""
        p = Program()
        turns = p.k.mbarrier.array(5, 1, name="turns")
        p.k.mbarrier.ready()
        p.k.mbarrier.wait(turns + p.k.warp_id(), 0)
        p.write(0)
        p.read(0)
        p.k.mbarrier.arrive(turns + p.k.warp_id() + 1)
        assert p.rules() == []

    def test_a_barrier_on_some_way(self) -> None:
        p = Program()
        p.write()
        with p.k.if_(p.n > 3):
            p.k.barrier.sync()
        p.read()
        assert p.rules() == []


class TestRounds:
    """From one round of a loop to the next."""

    @staticmethod
    def looped(body: Step, rounds: Callable[[Program], object] = lambda p: p.n) -> list[str]:
        p = Program()
        with p.k.range(rounds(p)) as p.step:
            body(p)
        return p.rules()

    def test_the_second_barrier(self) -> None:
        assert self.looped(lambda p: (p.write(), p.k.barrier.sync(), p.read())) == [EARLY]
        assert self.looped(lambda p: (p.write(), p.k.barrier.sync(), p.read(), p.k.barrier.sync())) == []
        assert self.looped(lambda p: (p.k.barrier.sync(), p.write(), p.k.barrier.sync(), p.read())) == []

    def test_a_loop_of_one_round(self) -> None:
        assert self.looped(lambda p: (p.write(), p.k.barrier.sync(), p.read()), lambda p: 1) == []

    def test_another_stage_in_each_round(self) -> None:
        def body(p):
            p.write(p.thread + p.step % 2 * 128)
            p.k.barrier.sync()
            p.read(127 - p.thread + p.step % 2 * 128)

        assert self.looped(body) == []

    def test_a_barrier_in_some_rounds(self) -> None:
        """It may order the write and the read behind it, and never the read and the write of the next round."""

        def body(p):
            p.write()
            with p.k.if_(p.n > 3):
                p.k.barrier.sync()
            p.read()

        assert self.looped(body) == [EARLY]

    def test_what_is_not_in_each_round(self) -> None:
        def body(p):
            with p.k.if_(p.step == 0):
                p.write()
                p.k.barrier.sync()
            p.read()

        assert self.looped(body) == []


def counts(p: Program) -> None:
    (p.buffer + p.thread // 64).atomic("add", 1)


def counts_by_row(p: Program) -> None:
    p.k.atomic.add(p.buffer + p.thread // 64, 1)


def counts_in_order(p: Program) -> None:
    p.k.atomic.add(p.buffer + 512, 1, order="acq_rel")


def test_an_atomic_that_acquires_may_order_what_comes_after_it() -> None:
    assert between(counts_in_order) == []
    assert between(lambda p: p.k.atomic.add(p.buffer + 512, 1)) == [MISSING]


@pytest.mark.parametrize(
    ("first", "second", "rules"),
    [
        (counts, counts, []),
        (Program.write, counts, [MISSING]),
        (counts, Program.read, [MISSING]),
        (counts, Program.write, [EARLY]),
        (Program.read, counts, [EARLY]),
        (counts_by_row, counts, []),
        (Program.write, counts_by_row, [MISSING]),
        (counts_by_row, Program.read, [MISSING]),
        (counts_by_row, Program.write, [EARLY]),
        (Program.read, counts_by_row, [EARLY]),
    ],
)
def test_atomics_race_with_others_and_not_with_one_another(first: Step, second: Step, rules: list[str]) -> None:
    p = Program()
    first(p)
    second(p)
    assert p.rules() == rules
    p = Program()
    first(p)
    p.k.barrier.sync()
    second(p)
    assert p.rules() == []


def test_an_attached_builder_says_nothing() -> None:
    p = Program()
    p.write()
    p.read()
    p.k.machine.attributes["attached"] = True
    assert p.rules() == []


def test_a_tile_of_wmma() -> None:
    p = Program("sm_80")
    p.write()
    p.k.wmma.load("a", "m16n16k16", f16, p.buffer.cast(f16), layout="row", stride=16)
    assert p.rules() == [MISSING]


def test_long_kernels_are_searched_once() -> None:
    """So many accesses that never meet cost no more than their number."""
    p = Program()
    for _ in range(300):
        p.write()
        p.read(p.thread)
    p.k.return_()
    p.k.core.link()
    assert find_races(p.k.machine) == []
