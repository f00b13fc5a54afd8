"""Two mistakes that have nothing to do with one another are both reported, and each of them once."""

from __future__ import annotations

from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32
from tests.support.runtime import broken

WIDTH = 32
BYTES = 4 * WIDTH


class Ring:
    """Rows of 32 floats in two stages: one lane of warp 0 fills them, warp 1 reads them and gives them back."""

    def __init__(self, k: Any, name: str) -> None:
        self.k, self.name = k, name
        self.rows = k.shared(f32, 2 * WIDTH, align=128, name=name)
        self.full, self.empty = (k.mbarrier.array(2, arrivals=1, name=f"{one}_{name}") for one in ("full", "empty"))
        k.mbarrier.ready()

    def row(self, step: Any) -> Any:
        return self.rows + step % 2 * WIDTH

    def announce(self, step: Any) -> Any:
        """The mbarrier for the bytes of a row, when its stage is free."""
        self.k.mbarrier.wait(self.empty + step % 2, step // 2 & 1 ^ 1)
        self.k.mbarrier.arrive(self.full + step % 2, expect_tx=BYTES)
        return self.full + step % 2

    def wait(self, step: Any) -> None:
        self.k.mbarrier.wait(self.full + step % 2, step // 2 & 1)

    def release(self, step: Any) -> None:
        self.k.warp.sync()
        self.k.mbarrier.arrive(self.empty + step % 2, when=self.k.lane_id() == 0)


def kernel(first: bool, second: bool) -> nvb.KernelDefinition:
    """Two rings, one after the other; each that is `early` gives its stages back before it reads them."""

    @nvb.kernel("sm_90a", threads=64)
    def two_rings(k, x: Pointer[f32], y: Pointer[f32], steps: i32):
        one = Ring(k, "one")
        with k.if_(k.warp_id() == 0), k.range(steps) as step, k.if_(k.lane_id() == 0):
            k.bulk.load(one.row(step), x + step * WIDTH, BYTES, one.announce(step))
        with k.else_(), k.range(steps) as step:
            one.wait(step)
            if first:
                one.release(step)
            y[step * WIDTH + k.lane_id()] = one.row(step)[k.lane_id()]
            if not first:
                one.release(step)
        k.barrier.sync()
        other = Ring(k, "other")
        with k.if_(k.warp_id() == 0), k.range(steps) as step, k.if_(k.lane_id() == 0):
            k.bulk.load(other.row(step), y + step * WIDTH, BYTES, other.announce(step))
        with k.else_(), k.range(steps) as step:
            other.wait(step)
            if second:
                other.release(step)
            x[step * WIDTH + k.lane_id()] = other.row(step)[k.lane_id()]
            if not second:
                other.release(step)

    return two_rings


def piped(first: bool, second: bool, *names: str) -> nvb.KernelDefinition:
    """The same by a helper that is called for each ring."""

    def pipe(k, ring, x, y, steps, early):
        with k.if_(k.warp_id() == 0), k.range(steps) as step, k.if_(k.lane_id() == 0):
            k.bulk.load(ring.row(step), x + step * WIDTH, BYTES, ring.announce(step))
        with k.else_(), k.range(steps) as step:
            ring.wait(step)
            if early:
                ring.release(step)
            y[step * WIDTH + k.lane_id()] = ring.row(step)[k.lane_id()]
            if not early:
                ring.release(step)
        k.barrier.sync()

    @nvb.kernel("sm_90a", threads=64)
    def two_rings(k, x: Pointer[f32], y: Pointer[f32], steps: i32):
        pipe(k, Ring(k, names[0]), x, y, steps, first)
        pipe(k, Ring(k, names[1]), y, x, steps, second)

    return two_rings


@pytest.mark.parametrize("names", [("one", "other"), ("rows", "rows")])
@pytest.mark.parametrize(("first", "second"), [(False, False), (True, False), (False, True), (True, True)])
def test_mistakes_of_one_helper_are_told_apart_by_their_rings(
    first: bool, second: bool, names: tuple[str, str]
) -> None:
    found = [one.message.split("fills ")[1].split(" while")[0] for one in broken(piped(first, second, *names).build)]
    other = names[1] if names[0] != names[1] else f"the second {names[1]}"
    assert found == [names[0]] * first + [other] * second


@pytest.mark.parametrize(("first", "second"), [(False, False), (True, False), (False, True), (True, True)])
def test_each_mistake_is_said_once(first: bool, second: bool) -> None:
    found = [(one.rule_id, one.message.split("fills ")[1].split()[0]) for one in broken(kernel(first, second).build)]
    assert found == [("proxy.refill", "one")] * first + [("proxy.refill", "other")] * second
