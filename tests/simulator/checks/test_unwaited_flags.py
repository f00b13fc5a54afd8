"""Data of another CTA that a thread reads without its flag: whichever of the two comes first in a run, that is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32, u32

WIDTH = 64
SEEDS = (0, 1, 3)
Case = tuple[nvb.KernelDefinition, int, tuple[Any, ...], np.ndarray, np.ndarray]
F32, U32 = Pointer(f32), Pointer(u32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def in_turn(right: bool) -> Case:
    """CTAs add to one row one after another: thread 0 polls whose turn it is, and its CTA must meet it."""

    @nvb.kernel("sm_80", threads=WIDTH)
    def add(k, x: F32, y: F32, turn: U32):
        thread, block = k.thread_id(), k.block_id()
        with k.if_(thread == 0), k.loop():
            k.break_if(turn.load(order="acquire", scope="gpu")[0] == block.to(u32))
        if right:
            k.barrier.sync()
        y[thread] = y[thread] + x[block * WIDTH + thread]
        k.barrier.sync()
        with k.if_(thread == 0):
            turn.store((block + 1).to(u32), order="release", scope="gpu")

    x, y = np.arange(3 * WIDTH, dtype=np.float32), zeros(WIDTH)
    return add, 3, (x, y, np.zeros(1, np.uint32)), y, x.reshape(3, WIDTH).sum(0)


def polled(right: bool) -> Case:
    """CTA 0 sums up what the others store; every thread polls the flag of each."""

    @nvb.kernel("sm_80", threads=WIDTH)
    def total(k, x: F32, parts: F32, y: F32, flags: U32):
        thread, block = k.thread_id(), k.block_id()
        with k.if_(block == 0):
            sum_ = k.var(x[thread])
            with k.range(1, k.block_count()) as other:
                if right:
                    with k.loop():
                        k.break_if((flags + other).load(order="acquire", scope="gpu")[0] == 1)
                sum_ += parts[other * WIDTH + thread]
            y[thread] = sum_
        with k.else_():
            parts[block * WIDTH + thread] = x[block * WIDTH + thread]
            k.barrier.sync()
            with k.if_(thread == 0):
                (flags + block).store(1, order="release", scope="gpu")

    x, y = np.arange(3 * WIDTH, dtype=np.float32), zeros(WIDTH)
    return total, 3, (x, zeros(3 * WIDTH), y, np.zeros(3, np.uint32)), y, x.reshape(3, WIDTH).sum(0)


def locked(right: bool) -> Case:
    """Lane 0 takes a lock for its warp, by a swap and fences."""

    @nvb.kernel("sm_80", threads=32)
    def add(k, x: F32, y: F32, lock: U32):
        lane, block = k.lane_id(), k.block_id()
        with k.if_(lane == 0):
            with k.loop():
                k.break_if(k.atomic.cas(lock, 0, 1) == 0)
            k.fence.thread("acq_rel", "gpu")
        if right:
            k.warp.sync()
        y[lane] = y[lane] + x[block * 32 + lane]
        k.warp.sync()
        with k.if_(lane == 0):
            k.fence.thread("acq_rel", "gpu")
            lock.store(0, order="relaxed", scope="gpu")

    x, y = np.arange(4 * 32, dtype=np.float32), zeros(32)
    return add, 4, (x, y, np.zeros(1, np.uint32)), y, x.reshape(4, 32).sum(0)


def stored(right: bool) -> Case:
    """One CTA stores a flag for the other: an ordinary store is none."""

    @nvb.kernel("sm_80", threads=32)
    def hand_over(k, x: Pointer(i32), y: Pointer(i32), flag: U32):
        k.return_if(k.thread_id() > 0)
        with k.if_(k.block_id() == 0):
            x[0] = 7
            if right:
                flag.store(1, order="release", scope="gpu")
            else:
                flag[0] = 1
        with k.else_():
            with k.loop():
                k.break_if(flag.load(order="acquire", scope="gpu")[0] == 1)
            y[0] = x[0]

    y = np.zeros(1, np.int32)
    return hand_over, 2, (np.zeros(1, np.int32), y, np.zeros(1, np.uint32)), y, np.array([7])


def drawn(case: Callable[[bool], Case], seed: int, *, right: bool) -> nvb.Diagnostic | None:
    kernel, grid, arguments, result, expected = case(right)
    compiled = kernel.compile(cache=nvb.Cache.disabled(), assemble=False)
    try:
        nvb.runtime.load(compiled, device="simulator", seed=seed).launch(grid, *arguments)
    except nvb.DiagnosticError as error:
        (found,) = error.diagnostics
        return found
    assert np.array_equal(result, expected)
    return None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", [in_turn, polled, locked, stored])
def test_nothing_is_said_where_it_is_waited_for(case, seed):
    assert drawn(case, seed, right=True) is None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("case", "meeting"), [(in_turn, "k.barrier.sync()"), (polled, 'order="acquire"'), (locked, "k.warp.sync()")]
)
def test_the_flag_and_how_it_is_waited_for_are_named(case, meeting, seed):
    """Or that of those who wait for it one thread alone does, where it has done so already."""
    found = drawn(case, seed, right=False)
    assert found.rule_id in ("simulator.flag-unwaited", "simulator.flag-barrier")
    assert meeting in found.fix
    assert any(text.startswith("the flag is here (PTX line ") for text, _ in found.notes)
    assert "by another warp" not in found.message  # it is of another CTA


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flag_that_is_stored_like_data(seed):
    found = drawn(stored, seed, right=False)
    assert found.rule_id == "simulator.flag-weak"
    assert 'order="release"' in found.fix and " write is an ordinary access" in found.message


def copied(wrong: str = "") -> Case:
    """CTA 0 stores by a bulk copy, waits for it and sets a flag, which CTA 1 polls; one step of that may be `wrong`."""

    @nvb.kernel("sm_90", threads=WIDTH)
    def hand_over(k, x: F32, kept: Pointer(f32, align=16), flag: U32, y: F32):
        words, thread = k.shared(f32, WIDTH, align=128, name="words"), k.thread_id()
        with k.if_(k.block_id() == 0):
            words[thread] = x[thread]
            k.fence.proxy_async()
            k.barrier.sync()
            with k.if_(thread == 0):
                k.bulk.store(kept, words, 4 * WIDTH)
                k.tma.commit_group()
                k.tma.wait_group(0, reading=wrong == "reading")
                k.fence.proxy_async(None)
                flag.store(1, order="relaxed" if wrong == "store" else "release", scope="gpu")
        with k.else_():
            with k.loop():
                k.break_if(flag.load(order="relaxed" if wrong == "load" else "acquire", scope="gpu")[0] == 1)
            y[thread] = kept[WIDTH - 1 - thread]

    x, y = np.arange(WIDTH, dtype=np.float32), zeros(WIDTH)
    return hand_over, 2, (x, zeros(WIDTH), np.zeros(1, np.uint32), y), y, x[::-1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("wrong", "rule", "fix"),
    [
        ("store", "simulator.flag-order", 'store the flag with order="release"'),
        ("load", "simulator.flag-order", 'load it with order="acquire"'),
        ("reading", "proxy.read-before-wait", "k.tma.wait_group(0), without reading=True"),
    ],
)
def test_a_copy_that_was_waited_for_before_its_flag(wrong, rule, fix, seed):
    """What is wrong with the flag is told as that, and no wait is asked for that is there."""
    found = drawn(lambda _: copied(wrong), seed, right=False)
    assert found.rule_id == rule
    assert fix in found.fix
    assert drawn(lambda _: copied(), seed, right=True) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_flags_of_which_any_may_be_meant(seed):
    """The notes have the place of each."""

    @nvb.kernel("sm_90", threads=32)
    def parts(k, x: F32, y: F32, flags: U32):
        lane = k.thread_id()
        with k.if_(k.block_id() == 0):
            x[lane] = 2.0
            k.warp.sync()
            with k.if_(lane == 0):
                flags.store(1, order="release", scope="gpu")
                (flags + 8).store(1, order="release", scope="gpu")
        with k.else_():
            y[lane] = x[lane]

    arguments = zeros(32), zeros(32), np.zeros(16, np.uint32)
    found = drawn(lambda _: (parts, 2, arguments, arguments[1], arguments[1]), seed, right=False)
    assert found.rule_id == "simulator.flag-unwaited"
    assert "does not wait for any of the 2 flags after the write, such as PTX line" in found.message
    assert len({place.line for text, place in found.notes if text.startswith("a flag is here (PTX line ")}) == 2
