"""Kernels whose lanes exchange data, and what lies between their accesses: only some of it orders the two.

By PTX ISA 9.7.13.2 lanes are ordered where they meet. By 9.7.13.15 an mbarrier orders what a thread did before its own
arrival with what one does after its own wait, and 9.7.9.25.3 a wait for cp.async with the copies of its own thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import nvbackend as nvb
from nvbackend import f32, i32

FLOATS = nvb.Pointer(f32, align=16)


@dataclass(frozen=True)
class Case:
    """A kernel with its constants, and whether its lanes are ordered; `runs` where a run cannot tell."""

    name: str
    kernel: nvb.KernelDefinition
    constants: dict[str, Any]
    is_right: bool

    @property
    def is_told_by_a_run(self) -> bool:
        """Whether the simulator sees that they are not: to it, a release tells all that its warp released before."""
        return not self.is_right and self.constants.get("way") is not all_arrive_and_wait_for_another_arrival


def mirrored(lane):
    return 31 - lane


def own(lane):
    return lane


class Between:
    """What a warp has for what it does between two accesses: an mbarrier for one arrival, one for that of each lane."""

    def __init__(self, k, x):
        self.k, self.x = k, x
        self.one, self.all = k.mbarrier.array(1, arrivals=1, name="one"), k.mbarrier.array(1, arrivals=32, name="all")
        self.copied = k.shared(f32, 32, align=128, name="copied")
        k.mbarrier.ready()

    def is_lane_0(self):
        return self.k.lane_id() == 0

    def arrives(self, barrier, **how):
        self.k.mbarrier.arrive(barrier, **how)


def lane_0_arrives(of):
    of.arrives(of.one, when=of.is_lane_0())
    of.k.mbarrier.wait(of.one, 0)


def lane_0_arrives_for_all(of):
    with of.k.if_(of.is_lane_0()):
        of.arrives(of.all, count=32)
    of.k.mbarrier.wait(of.all, 0)


def lane_0_arrives_and_waits(of):
    with of.k.if_(of.is_lane_0()):
        of.arrives(of.one)
        of.k.mbarrier.wait(of.one, 0)


def lanes_meet_and_lane_0_arrives(of):
    of.k.warp.sync()
    lane_0_arrives(of)


def all_arrive(of):
    of.arrives(of.all)
    of.k.mbarrier.wait(of.all, 0)


def all_arrive_in_two_halves(of):
    with of.k.if_(of.k.lane_id() < 16):
        of.arrives(of.all)
    with of.k.else_():
        of.arrives(of.all)
    of.k.mbarrier.wait(of.all, 0)


def all_arrive_and_ask(of):
    of.arrives(of.all)
    with of.k.loop():
        of.k.break_if(of.k.mbarrier.test(of.all, parity=0))


def all_arrive_and_wait_for_its_state(of):
    state = of.k.mbarrier.arrive(of.all, state=True)
    with of.k.loop():
        of.k.break_if(of.k.mbarrier.test(of.all, state=state))


def all_arrive_and_nobody_waits(of):
    of.arrives(of.all)


def all_arrive_and_lane_0_waits(of):
    of.arrives(of.all)
    with of.k.if_(of.is_lane_0()):
        of.k.mbarrier.wait(of.all, 0)


def all_arrive_and_lane_0_waits_and_lanes_meet(of):
    all_arrive_and_lane_0_waits(of)
    of.k.warp.sync()


def all_arrive_and_wait_for_another_arrival(of):
    of.arrives(of.all)
    lane_0_arrives(of)


def lane_0_waits_for_all_and_hands_on(of):
    all_arrive_and_lane_0_waits(of)
    lane_0_arrives(of)


def all_arrive_relaxed_between_fences(of):
    order = ("relaxed", "cta")
    of.k.fence.thread("acq_rel", "cta")
    of.arrives(of.all, qualifiers=order)
    with of.k.loop():
        of.k.break_if(of.k.mbarrier.test(of.all, parity=0, blocking=True, qualifiers=order))
    of.k.fence.thread("acq_rel", "cta")


def a_copy_comes(of):
    with of.k.if_(of.is_lane_0()):
        of.arrives(of.one, expect_tx=128)
        of.k.bulk.load(of.copied, of.x, 128, of.one)
    of.k.mbarrier.wait(of.one, 0)


def lanes_meet_and_a_copy_comes(of):
    of.k.warp.sync()
    a_copy_comes(of)


def all_add_to_memory(of):
    of.k.atomic.reduce(of.x + 512, "add", 1.0, order="release")


def all_store_a_flag(of):
    (of.x + 512).store(1.0, order="release", scope="gpu")


WAYS = {
    lane_0_arrives: False,
    lane_0_arrives_for_all: False,
    lane_0_arrives_and_waits: False,
    lanes_meet_and_lane_0_arrives: True,
    all_arrive: True,
    all_arrive_in_two_halves: True,
    all_arrive_and_ask: True,
    all_arrive_and_wait_for_its_state: True,
    all_arrive_and_nobody_waits: False,
    all_arrive_and_lane_0_waits: False,
    all_arrive_and_lane_0_waits_and_lanes_meet: True,
    all_arrive_and_wait_for_another_arrival: False,
    lane_0_waits_for_all_and_hands_on: True,
    all_arrive_relaxed_between_fences: True,
    a_copy_comes: False,
    lanes_meet_and_a_copy_comes: True,
    all_add_to_memory: False,
    all_store_a_flag: False,
}


@nvb.kernel("sm_90", threads=32)
def written(k, x: FLOATS, y: FLOATS, *, way, reads):
    of, row, lane = Between(k, x), k.shared(f32, 32, name="row"), k.lane_id()
    row[lane] = x[lane]
    way(of)
    y[lane] = row[reads(lane)]


@nvb.kernel("sm_90", threads=32)
def read(k, x: FLOATS, y: FLOATS, *, way, reads):
    of, row, lane = Between(k, x), k.shared(f32, 32, name="row"), k.lane_id()
    row[lane] = x[lane]
    k.warp.sync()
    y[lane] = row[reads(lane)]
    way(of)
    row[lane] = 0.0


@nvb.kernel("sm_90", threads=64)
def by_way_of_another_warp(k, x: FLOATS, y: FLOATS, *, arrivals, reads):
    row, lane = k.shared(f32, 32, name="row"), k.lane_id()
    there, back = k.mbarrier.array(1, arrivals=arrivals, name="there"), k.mbarrier.array(1, arrivals=1, name="back")
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 0):
        row[lane] = x[lane]
        k.mbarrier.arrive(there, when=lane < arrivals)
        k.mbarrier.wait(back, 0)
        y[lane] = row[reads(lane)]
    with k.else_():
        k.mbarrier.wait(there, 0)
        k.mbarrier.arrive(back, when=lane == 0)


@nvb.kernel("sm_90", threads=32)
def in_rounds(k, x: FLOATS, y: FLOATS, n: i32(minimum=1), *, arrives, slots):
    """Lanes hand values on in each round, and meet by an mbarrier alone."""
    row, lane = k.shared(f32, 32 * slots, name="row"), k.lane_id()
    met = k.mbarrier.array(1, arrivals=32, name="met")
    k.mbarrier.ready()
    with k.range(n) as i:
        row[i % slots * 32 + lane] = x[i * 32 + lane]
        arrives(k, met, lane)
        k.mbarrier.wait(met, i & 1)
        y[i * 32 + lane] = row[i % slots * 32 + 31 - lane]


def each(k, met, lane):
    k.mbarrier.arrive(met)


def lane_0_for_each(k, met, lane):
    with k.if_(lane == 0):
        k.mbarrier.arrive(met, count=32)


@nvb.kernel("sm_90", threads=32)
def many_rounds(k, x: FLOATS, y: FLOATS, *, reads):
    """Of what lanes did many rounds ago nothing is said: nothing is wrong here either way."""
    row, lane = k.shared(f32, 32, name="row"), k.lane_id()
    tick, met = k.mbarrier.array(1, arrivals=1, name="tick"), k.mbarrier.array(1, arrivals=32, name="met")
    k.mbarrier.ready()
    with k.range(100) as i:
        row[lane] = x[lane]
        k.mbarrier.arrive(tick, when=lane == i % 32)
        k.mbarrier.wait(tick, i & 1)
    k.mbarrier.arrive(met)
    k.mbarrier.wait(met, 0)
    y[lane] = row[reads(lane)]


@nvb.kernel("sm_80", threads=64)
def copied(k, x: FLOATS, y: FLOATS, *, between, reads):
    row, thread, lane = k.shared(f32, 64, name="row"), k.thread_id(), k.lane_id()
    done = k.mbarrier.array(1, arrivals=64, name="done")
    k.mbarrier.ready()
    k.cp_async.copy(row + thread, x + thread, 4)
    between(k, done)
    y[thread] = row[thread - lane + reads(lane)]


def waits(k, done):
    k.cp_async.commit_group()
    k.cp_async.wait_group(0)


def meets_and_waits(k, done):
    k.warp.sync()
    waits(k, done)


def waits_and_meets(k, done):
    waits(k, done)
    k.warp.sync()


def waits_and_the_cta_meets(k, done):
    waits(k, done)
    k.barrier.sync()


def arrives_with_the_copies(k, done):
    k.cp_async.mbarrier_arrive(done, no_increment=True)
    with k.loop():
        k.break_if(k.mbarrier.test(done, parity=0))


def arrives_with_the_copies_and_waits(k, done):
    arrives_with_the_copies(k, done)
    waits(k, done)


@nvb.kernel("sm_80", threads=32)
def copied_again(k, x: FLOATS, y: FLOATS, n: i32(minimum=2), *, meets, reads):
    """A ring of two rows: each lane copies a part of the next one while all read this one."""
    rows, lane = k.shared(f32, 64, name="rows"), k.lane_id()
    k.cp_async.copy(rows + lane, x + lane, 4)
    k.cp_async.commit_group()
    with k.range(n) as i:
        if meets:
            k.warp.sync()
        with k.if_(i + 1 < n):
            k.cp_async.copy(rows + (i + 1) % 2 * 32 + lane, x + (i + 1) * 32 + lane, 4)
        k.cp_async.commit_group()
        k.cp_async.wait_group(1)
        if meets or reads is None:
            k.warp.sync()
        y[i * 32 + lane] = rows[i % 2 * 32 + (31 - lane if reads is None else reads(lane))]


@nvb.kernel("sm_90", threads=32)
def a_row_of_each(k, x: FLOATS, y: FLOATS, n: i32(minimum=2), *, meets, reads):
    """Each lane has its row brought, reads a row, and has its next one brought to the same place."""
    rows, lane = k.shared(f32, 32 * 4, align=128, name="rows"), k.lane_id()
    full = k.mbarrier.array(1, arrivals=32, name="full")
    k.mbarrier.ready()
    with k.range(n) as i:
        if meets:
            k.warp.sync()
        k.mbarrier.arrive(full, expect_tx=16)
        k.bulk.load(rows + lane * 4, x + (i * 32 + lane) * 4, 16, full)
        k.mbarrier.wait(full, i & 1)
        (y + (i * 32 + lane) * 4).store(*(rows + reads(lane) * 4).load(4))


@nvb.kernel("sm_90", threads=32)
def a_row_from_each(k, x: FLOATS, y: FLOATS, *, meets, reads):
    """Each lane writes a row, and has a row copied to global memory."""
    rows, lane = k.shared(f32, 32 * 4, align=128, name="rows"), k.lane_id()
    (rows + reads(lane) * 4).store(*(x + lane * 4).load(4))
    k.fence.proxy_async()
    if meets:
        k.warp.sync()
    k.bulk.store(y + lane * 4, rows + lane * 4, 16)
    k.tma.commit_group()
    k.tma.wait_group(0)


@nvb.kernel("sm_90", threads=32, cluster=2)
def in_a_peer(k, x: FLOATS, y: FLOATS, *, meets, reads):
    row, lane = k.shared(f32, 32, name="row"), k.lane_id()
    theirs = k.cluster.map_shared_rank(row, k.cluster.peer_rank())
    k.cluster.sync()
    theirs[lane] = x[lane]
    if meets:
        k.warp.sync()
    y[k.block_id() * 32 + lane] = theirs[reads(lane)]
    k.cluster.sync()


@nvb.kernel("sm_90", threads=32)
def one_word(k, x: FLOATS, y: FLOATS, *, writer, meets):
    word, lane = k.shared(f32, 1, name="word"), k.lane_id()
    with k.if_(lane == 0):
        word[0] = x[0]
    k.warp.sync()
    y[lane] = word[0]
    if meets:
        k.warp.sync()
    with k.if_(lane == writer):
        word[0] = 0.0


WAITS = {
    waits: False,
    meets_and_waits: False,
    waits_and_meets: True,
    waits_and_the_cta_meets: True,
    arrives_with_the_copies: True,
    arrives_with_the_copies_and_waits: True,
}


def _cases() -> Iterator[Case]:
    for kernel in (written, read):
        for way, is_right in WAYS.items():
            yield Case(f"{kernel.name}, {way.__name__}", kernel, {"way": way, "reads": mirrored}, is_right)
            yield Case(f"{kernel.name}, {way.__name__}, own", kernel, {"way": way, "reads": own}, True)
    for arrivals, reads, is_right in (
        (32, mirrored, True),
        (1, mirrored, False),
        (1, lambda lane: 0 * lane, True),
        (16, lambda lane: lane % 16, True),
        (16, lambda lane: lane ^ 1, False),
    ):
        name = f"by way of another warp, {arrivals} arrive, {is_right}"
        yield Case(name, by_way_of_another_warp, {"arrivals": arrivals, "reads": reads}, is_right)
    for arrives, slots, is_right in ((each, 2, True), (each, 1, False), (lane_0_for_each, 2, False)):
        yield Case(f"in rounds, {arrives.__name__}, {slots}", in_rounds, {"arrives": arrives, "slots": slots}, is_right)
    yield Case("many rounds", many_rounds, {"reads": mirrored}, True)
    for between, is_right in WAITS.items():
        yield Case(f"copied, {between.__name__}", copied, {"between": between, "reads": mirrored}, is_right)
        yield Case(f"copied, {between.__name__}, own", copied, {"between": between, "reads": own}, True)
    for meets, reads, is_right in ((True, None, True), (False, None, False), (False, own, True), (True, own, True)):
        yield Case(f"copied again, {meets}, {is_right}", copied_again, {"meets": meets, "reads": reads}, is_right)
    for kernel in (a_row_of_each, a_row_from_each, in_a_peer):
        for meets, reads, is_right in ((False, mirrored, False), (True, mirrored, True), (False, own, True)):
            yield Case(f"{kernel.name}, {meets}, {is_right}", kernel, {"meets": meets, "reads": reads}, is_right)
    for writer in (0, 15, 31):
        for meets in (False, True):
            yield Case(f"one word, {writer}, {meets}", one_word, {"writer": writer, "meets": meets}, meets)


CASES = list(_cases())
