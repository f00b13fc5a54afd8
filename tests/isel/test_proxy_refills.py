"""Tiles that are filled again while other warps multiply them: found where nothing stands between, and only there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from nvbackend import i32
from nvbackend.isel.proxy_refills import check_refills
from tests.support.proxy_program import Program

Step = Callable[[Program], object]


class TestRefills:
    """A tile that is filled again, while the multiplies of other warps may read it."""

    @staticmethod
    def refilled(between: Step, fill: Step, *, skipped: bool = False) -> list[str]:
        p = Program()
        acc, phase = p.accumulator(), p.k.var(0)
        with p.k.range(p.n) as step:
            fill(p)
            p.k.fence_proxy_async()
            p.k.barrier()
            p.k.mbarrier_wait(p.full, phase)
            phase ^= 1
            with p.k.if_(step > 0) if skipped else nullcontext(), p.k.wgmma(in_flight=0):
                p.mma(acc)
            between(p)
        p.k.return_()
        p.k._link()
        return [one.rule_id for one in check_refills(p.k.machine)]

    @pytest.mark.parametrize("fill", [Program.load, Program.write, Program.stmatrix])
    def test_in_the_next_round(self, fill: Step) -> None:
        assert self.refilled(lambda p: p.k.fence_proxy_async(), fill) == ["proxy.refill"]

    @pytest.mark.parametrize(
        "between",
        [
            lambda p: p.k.barrier(),
            lambda p: p.k.barrier(1, threads=128),
            lambda p: p.k.mbarrier_wait(p.full + 1, 0),
            lambda p: p.k.membar("cta"),
        ],
    )
    def test_what_threads_meet_at_orders_it(self, between: Step) -> None:
        assert self.refilled(between, Program.load) == []

    def test_a_multiply_that_is_not_in_every_round_says_nothing(self) -> None:
        assert self.refilled(lambda p: None, Program.load, skipped=True) == []

    def test_another_tile_says_nothing(self) -> None:
        assert self.refilled(lambda p: None, lambda p: p.load(p.other)) == []

    def test_straight_on(self) -> None:
        p = Program()
        acc = p.accumulator()
        with p.k.wgmma(in_flight=0):
            p.mma(acc)
        p.write()
        p.k.return_()
        p.k._link()
        assert [one.rule_id for one in check_refills(p.k.machine)] == ["proxy.refill"]

    def test_a_thread_of_another_role_says_nothing(self) -> None:
        """The consumer never goes the producer's way, though the graph has a way from one to the other."""
        p = Program()
        acc = p.accumulator()
        with p.k.range(p.n):
            with p.k.if_(p.pointer.cast(i32)[0] == 0):
                p.load()
            with p.k.else_(), p.k.wgmma(in_flight=0):
                p.mma(acc)
        p.k.return_()
        p.k._link()
        assert check_refills(p.k.machine) == []
