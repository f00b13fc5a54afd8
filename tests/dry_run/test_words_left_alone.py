"""Lengths that both roles of a ring load with a memory order: one number, where the kernel leaves the word alone."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, u8, u16
from tests.dry_run.refusals import refusals

ROWS = nvb.Pointer(f32, align=128)
CHUNK = 128
ORDERS = [("relaxed", "gpu"), ("acquire", "gpu"), ("volatile", None)]


@nvb.kernel("sm_90", threads=160)
def sums(k, x: ROWS, y: nvb.Pointer[f32], length: nvb.Pointer[i32], *, order, less=0, tiles=1):
    chunk = k.shared(f32, 2 * CHUNK, align=128)
    full = k.mbarrier.array(2, arrivals=1, name="full")
    empty = k.mbarrier.array(2, arrivals=CHUNK, name="empty")
    k.mbarrier.ready()
    at, total = k.var(0), k.var(0.0, f32)

    def load():
        k.mbarrier.wait(empty + at % 2, at // 2 % 2 ^ 1)
        k.mbarrier.arrive(full + at % 2, expect_tx=4 * CHUNK)
        k.bulk.load(chunk + at % 2 * CHUNK, x, 4 * CHUNK, full + at % 2)
        at.set(at + 1)

    def use():
        k.mbarrier.wait(full + at % 2, at // 2 % 2)
        total.set(total + chunk[at % 2 * CHUNK + k.thread_id()])
        k.mbarrier.arrive(empty + at % 2)
        at.set(at + 1)

    def read():
        return length.load(order=order[0], scope=order[1])[0]

    with k.if_(k.warp_id() == 4):
        lane = k.lane_id()
        with k.if_(lane == 0), k.range(tiles), k.range(read() - less):
            load()
    with k.else_():
        with k.range(tiles):
            n = read()
            half = (n + 1) // 2
            with k.range(half):
                use()
            with k.range(half, n):
                use()
        y[k.thread_id()] = total


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("tiles", [1, 3])
def test_both_roles_read_one_length(order, tiles) -> None:
    assert refusals(sums, order=order, tiles=tiles) == []


@pytest.mark.parametrize("order", ORDERS)
def test_a_load_too_few_is_found(order) -> None:
    assert refusals(sums, order=order, less=1) == ["mbarrier.deadlock"]


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_the_kernel_is_right(number) -> None:
    kernel = sums.compile(order=ORDERS[0], assemble=None)
    y = np.zeros(CHUNK, np.float32)
    launch = nvb.runtime.load(kernel, device="simulator").launch
    launch(1, np.arange(CHUNK, dtype=np.float32), y, np.array([number], np.int32))
    assert (y == number * np.arange(CHUNK)).all()


@nvb.kernel("sm_90", threads=64)
def signalled(k, flag: nvb.Pointer[i32], out: nvb.Pointer[i32], *, waits):
    """Both warps wait for a flag that another kernel sets; then one signals the other."""
    done = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.loop():
        k.break_if(flag.load(order="acquire", scope="gpu")[0] == 1)
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(done)
    with k.if_(k.warp_id() == 1), k.range(waits) as phase:
        k.mbarrier.wait(done, phase % 2)
    out[k.thread_id()] = 1


def test_a_flag_for_which_a_loop_asks_is_another_number_each_time() -> None:
    assert refusals(signalled, waits=1) == []
    assert refusals(signalled, waits=2) == ["mbarrier.deadlock"]


@nvb.kernel("sm_90", threads=64)
def counted(k, length: nvb.Pointer[i32], out: nvb.Pointer[i32], *, width, less=0):
    """One warp arrives as often as the low bits of a word say, the other waits as often as a narrower load says."""
    full, empty = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "empty"))
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 0), k.range(length[0] & (1 << width.bits) - 1) as step, k.if_(k.lane_id() == 0):
        k.mbarrier.wait(empty, step % 2 ^ 1)
        k.mbarrier.arrive(full)
    with k.else_(), k.range(length.cast(width)[0].to(i32) + less) as step:
        k.mbarrier.wait(full, step % 2)
        with k.if_(k.lane_id() == 0):
            k.mbarrier.arrive(empty)
    out[k.thread_id()] = 1


@pytest.mark.parametrize("width", [u8, u16])
def test_a_narrow_load_reads_the_low_bits_of_a_wide_one(width) -> None:
    """Memory is little-endian (PTX ISA 4.1, 5.1)."""
    assert refusals(counted, width=width) == []
    assert refusals(counted, width=width, less=1) == ["mbarrier.deadlock"]


@nvb.kernel("sm_90", threads=64)
def compared(k, word: nvb.Pointer[i32], out: nvb.Pointer[i32], *, differs=0):
    """The first thread arrives where a byte is as the low bits of its word, and all wait for it."""
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with k.if_((word.cast(u8)[0].to(i32) == (word[0] & 255) + differs) & (k.thread_id() == 0)):
        k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)
    out[k.thread_id()] = 1


def test_a_byte_equals_the_low_bits_of_its_word() -> None:
    assert refusals(compared) == []
    assert refusals(compared, differs=256) == ["mbarrier.deadlock"]


@nvb.kernel("sm_90", threads=64)
def arrives_for_data(k, words: nvb.Pointer[i32], *, assumes=False):
    """All wait for an arrival that a word decides about."""
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    if assumes:
        k.assume(words[3] > 0)
    with k.if_((k.thread_id() == 0) & (words[3] > 0)):
        k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)


def test_a_deadlock_names_the_number_with_which_it_comes_and_how_to_rule_it_out() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        arrives_for_data.build()
    (said,) = caught.value.diagnostics
    assert said.rule_id == "mbarrier.deadlock"
    assert said.message.endswith("(with words[3] = 0)")
    assert said.fix.endswith("if words[3] never has that value, rule it out with k.assume")
    assert refusals(arrives_for_data, assumes=True) == []
