"""Tiles that are filled again while other warps multiply them: found where nothing stands between, and only there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from nvbackend import InstructionDescriptor, KernelBuilder, Tcgen05Request, f16, f32, i32, u32
from nvbackend.builder.core.memory import Address
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED
from nvbackend.isel.protocols.proxy.refills import check_refills
from nvbackend.signature import Parameter, TensorMap
from tests.support.proxy_program import TILE, Program

SQUARE = InstructionDescriptor(kind="f16", m=64, n=64, a=f16, b=f16, d=f32)
Step = Callable[[Program], object]


class TestRefills:
    """A tile that is filled again, while the multiplies of other warps may read it."""

    @staticmethod
    def refilled(between: Step, fill: Step, *, skipped: bool = False, attached: bool = False) -> list[str]:
        p = Program()
        acc, phase = p.accumulator(), p.k.var(0)
        with p.k.range(p.n) as step:
            fill(p)
            p.k.fence.proxy_async()
            p.k.barrier.sync()
            p.k.mbarrier.wait(p.full, phase)
            phase ^= 1
            with p.k.if_(step > 0) if skipped else nullcontext(), p.k.wgmma.group(in_flight=0):
                p.mma(acc)
            between(p)
        p.k.return_()
        p.k.core.link()
        p.k.machine.attributes[ATTACHED] = attached
        return [one.rule_id for one in check_refills(p.k.machine)]

    @pytest.mark.parametrize("attached", [False, True])
    def test_the_owner_of_an_attached_function_may_have_barriers_of_its_own(self, attached: bool) -> None:
        found = self.refilled(lambda p: p.k.fence.proxy_async(), Program.load, attached=attached)
        assert found == ["proxy.refill"] * (not attached)

    @pytest.mark.parametrize("fill", [Program.load, Program.write, Program.stmatrix])
    def test_in_the_next_round(self, fill: Step) -> None:
        assert self.refilled(lambda p: p.k.fence.proxy_async(), fill) == ["proxy.refill"]

    @pytest.mark.parametrize(
        "between",
        [
            lambda p: p.k.barrier.sync(),
            lambda p: p.k.barrier.sync(1, threads=128),
            lambda p: p.k.mbarrier.wait(p.full + 1, 0),
            lambda p: p.k.fence.membar("cta"),
        ],
    )
    def test_what_threads_meet_at_orders_it(self, between: Step) -> None:
        assert self.refilled(between, Program.load) == []

    def test_a_barrier_on_some_way_says_nothing(self) -> None:
        def on_some_way(p: Program) -> None:
            with p.k.if_(p.n > 3):
                p.k.barrier.sync()

        assert self.refilled(on_some_way, Program.load) == []

    def test_a_multiply_that_is_not_in_every_round_says_nothing(self) -> None:
        assert self.refilled(lambda p: None, Program.load, skipped=True) == []

    def test_another_tile_says_nothing(self) -> None:
        assert self.refilled(lambda p: None, lambda p: p.load(p.other)) == []

    def test_straight_on(self) -> None:
        p = Program()
        acc = p.accumulator()
        with p.k.wgmma.group(in_flight=0):
            p.mma(acc)
        p.write()
        p.k.return_()
        p.k.core.link()
        assert [one.rule_id for one in check_refills(p.k.machine)] == ["proxy.refill"]

    def test_a_multiply_of_some_kernels_says_nothing(self) -> None:
        """Without a loop, after a branch: whether anybody has multiplied is not known where the tile is filled."""
        p = Program()
        acc = p.accumulator()
        with p.k.if_(p.n > 0), p.k.wgmma.group(in_flight=0):
            p.mma(acc)
        p.load()
        p.k.return_()
        p.k.core.link()
        assert check_refills(p.k.machine) == []

    def test_a_thread_of_another_role_says_nothing(self) -> None:
        """The consumer never goes the producer's way, though the graph has a way from one to the other."""
        p = Program()
        acc = p.accumulator()
        with p.k.range(p.n):
            with p.k.if_(p.pointer.cast(i32)[0] == 0):
                p.load()
            with p.k.else_(), p.k.wgmma.group(in_flight=0):
                p.mma(acc)
        p.k.return_()
        p.k.core.link()
        assert check_refills(p.k.machine) == []

    @pytest.mark.parametrize(("fill", "said"), [(Program.load, ["proxy.refill"]), (Program.write, [])])
    def test_a_warp_may_fill_its_own_rows_of_a(self, fill: Step, said: list[str]) -> None:
        """Each warp reads other rows of A: all threads may write their own, one thread that loads them all may not."""
        p = Program()
        acc = p.accumulator()
        with p.k.wgmma.group(in_flight=0):
            p.mma(acc, p.tile, p.other)
        fill(p)
        p.k.return_()
        p.k.core.link()
        assert [one.rule_id for one in check_refills(p.k.machine)] == said

    @pytest.mark.parametrize("skipped", [False, True])
    def test_a_multiply_that_a_role_may_skip_says_nothing(self, skipped: bool) -> None:
        p = Program()
        acc = p.accumulator()
        with p.k.if_(p.k.warp_id() < 4):
            with p.k.if_(p.n > 0) if skipped else nullcontext(), p.k.wgmma.group(in_flight=0):
                p.mma(acc)
            p.load()
        p.k.return_()
        p.k.core.link()
        assert [one.rule_id for one in check_refills(p.k.machine)] == ([] if skipped else ["proxy.refill"])

    @pytest.mark.parametrize("in_flight", [0, 1])
    def test_where_the_own_multiplies_run_on_their_wait_is_the_cause(self, in_flight: int) -> None:
        p = Program()
        acc = p.accumulator()
        with p.k.wgmma.group(in_flight=in_flight):
            p.mma(acc)
        p.write()
        p.k.return_()
        p.k.core.link()
        assert [one.rule_id for one in check_refills(p.k.machine)] == ([] if in_flight else ["proxy.refill"])


Steps = Callable[[KernelBuilder, Address], object]


def nothing(k: KernelBuilder, done: Address) -> None:
    """No step at all."""


def wait_in_warp_1(k: KernelBuilder, done: Address) -> None:
    with k.if_(k.warp_id() == 1):
        k.mbarrier.wait(done, 0)


class TestTcgen05:
    """A tile that tcgen05.mma reads until an mbarrier says that it is done."""

    @staticmethod
    def refilled(
        between: Steps = nothing,
        *,
        before: Steps = nothing,
        others: Steps = nothing,
        by: int = 0,
        everybody: bool = False,
    ) -> list[str]:
        k = KernelBuilder("kernel", "sm_100a", threads=128, parameters=[Parameter("map", TensorMap(f16, (64, 64)))])
        tile = k.shared_tile(TILE, name="tile")
        full, done = k.mbarrier.array(1, 1, name="full"), k.mbarrier.array(1, 1, name="done")
        cell = k.shared(u32, 1)
        with k.if_(k.warp_id() == 0):
            k.tcgen05.alloc(cell, 64)
        k.mbarrier.ready()
        columns = cell[0]
        before(k, done)
        with k.if_(k.warp_id() == 0), k.if_(k.elect()):
            k.tcgen05.mma(Tcgen05Request("f16"), columns, tile, tile, SQUARE, accumulate=False)
            k.tcgen05.commit(done)
        with k.else_():
            others(k, done)
        between(k, done)
        if everybody:
            tile.address.cast(u32)[0] = 1
        else:
            with k.one_thread(by):
                k.mbarrier.arrive(full, expect_tx=TILE.bytes)
                k.tma.load(tile, k.arguments[0], (0, 0), full)
        k.return_()
        k.core.link()
        return [one.rule_id for one in check_refills(k.machine)]

    @pytest.mark.parametrize("by", [0, 1])
    def test_by_the_thread_that_multiplied_and_by_another(self, by: int) -> None:
        assert self.refilled(by=by) == ["proxy.refill-in-flight"]

    def test_by_all_threads(self) -> None:
        assert self.refilled(lambda k, done: k.fence.proxy_async(), everybody=True) == ["proxy.refill-in-flight"]

    @pytest.mark.parametrize(
        "between",
        [
            lambda k, done: k.mbarrier.wait(done, 0),
            lambda k, done: k.barrier.sync(),  # others may have waited before they came to it
            lambda k, done: k.fence.membar("cta"),
            wait_in_warp_1,
        ],
    )
    def test_what_orders_it(self, between: Steps) -> None:
        assert self.refilled(between, by=1) == []

    def test_a_thread_that_waited_before_says_nothing(self) -> None:
        """In the text its wait is in front of the multiply, and it ends behind it."""
        assert self.refilled(before=wait_in_warp_1, by=1) == []

    def test_a_thread_that_waited_on_another_side_says_nothing(self) -> None:
        assert self.refilled(others=lambda k, done: k.mbarrier.wait(done, 0), by=1) == []
