"""Reads of memory that a peer, or a copy, fills: a wait at the mbarrier of the bytes must lead there."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import nvbackend as nvb
from nvbackend import f32, i32, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED
from nvbackend.isel.protocols.proxy.protocol import check_proxy_protocol
from nvbackend.signature import Parameter, Pointer, Scalar

UNWAITED = "proxy.read-before-wait"


def found(program) -> list[str]:
    parameters = [Parameter("out", Pointer(f32, align=16)), Parameter("n", Scalar(i32))]
    k = KernelBuilder("filled", "sm_90a", threads=128, cluster=2, parameters=parameters)
    own, full = k.shared(f32, 128, align=128), k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    try:
        program(k, own, full, *k.arguments)
        k.cluster.sync()
        return [one.rule_id for one in k.finish().diagnostics]
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


def copy(k, own, full):
    source = k.shared(f32, 128, align=128)
    with k.one_thread():
        k.bulk.store(own, source, 512, barrier=full, rank=k.cluster.peer_rank())


SENDS = {
    "st.async": lambda k, own, full: k.async_store.store(
        own + k.thread_id(), [k.const(1.0, f32)], full, k.cluster.peer_rank()
    ),
    "red.async": lambda k, own, full: k.async_store.reduce(
        own.cast(i32) + k.thread_id(), "add", k.const(1, i32), full, k.cluster.peer_rank()
    ),
    "bulk": copy,
}


def expect(k, full):
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=512)


@pytest.mark.parametrize("send", SENDS)
@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("wait", ["before", "after", "never"])
def test_a_wait_before_what_a_peer_sends_is_read(send, clear, wait):
    def program(k, own, full, out, n):
        if clear:
            own[k.thread_id()] = 0.0
            k.fence.proxy_async()
            k.cluster.sync()
        expect(k, full)
        SENDS[send](k, own, full)
        if wait == "before":
            k.mbarrier.wait(full, 0)
        out[k.thread_id()] = own[k.thread_id()]
        if wait == "after":
            k.mbarrier.wait(full, 0)

    assert (UNWAITED in found(program)) is (wait != "before")


def sent_by_one_rank(wait: bool, handed: bool = False):
    def program(k, own, full, out, n):
        ready = k.mbarrier.array(1, 1, name="ready")
        k.mbarrier.ready()
        own[k.thread_id()] = 0.0
        k.fence.proxy_async()
        k.cluster.sync()
        expect(k, full)
        with k.if_(k.cluster.rank() == 0):
            if handed:
                k.mbarrier.wait(ready, 0)
            k.async_store.store(own + k.thread_id(), [k.const(1.0, f32)], full, 1)
        with k.if_(k.cluster.rank() == 1):
            if wait:
                k.mbarrier.wait(full, 0)
            out[k.thread_id()] = own[k.thread_id()]
            if handed:
                k.barrier.sync()
                k.mbarrier.arrive(ready, rank=0, when=k.thread_id() == 0)

    return found(program)


def test_one_rank_sends_and_another_reads():
    assert UNWAITED in sent_by_one_rank(wait=False)
    assert UNWAITED not in sent_by_one_rank(wait=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("to", [0, 1, "peer"])
@pytest.mark.parametrize("sending", [{0}, {1}, {0, 1}], ids=str)
@pytest.mark.parametrize("reading", [{0}, {1}, {0, 1}, "who sends"], ids=str)
def test_who_sends_to_whom_and_who_reads(to, sending, reading):
    """Wrong where some CTA reads what another sends to it, of all ranks tried one by one."""

    def only(k, ranks):
        return k.if_(k.cluster.rank() == min(ranks)) if len(ranks) == 1 else nullcontext()

    def program(k, own, full, out, n):
        own[k.thread_id()] = 0.0
        k.fence.proxy_async()
        k.cluster.sync()
        expect(k, full)
        with only(k, sending):
            target = k.cluster.peer_rank() if to == "peer" else to
            k.async_store.store(own + k.thread_id(), [k.const(1.0, f32)], full, target)
            if reading == "who sends":
                out[k.thread_id()] = own[k.thread_id()]
        if reading != "who sends":
            with only(k, reading):
                out[k.thread_id()] = own[k.thread_id()]

    receiving = {1 - rank for rank in sending if to in ("peer", 1 - rank)}
    assert (UNWAITED in found(program)) is bool(receiving & (sending if reading == "who sends" else reading))


def test_a_peer_that_waits_until_it_may_send():
    """What is read was there before; the text has the send in front."""
    assert UNWAITED not in sent_by_one_rank(wait=False, handed=True)


@pytest.mark.parametrize(
    "case", ["cleared before", "other half", "to some CTA", "under a condition", "waited for elsewhere"]
)
def test_reads_that_are_right(case):
    def program(k, own, full, out, n):
        other = k.mbarrier.array(1, 1, name="other")
        k.mbarrier.ready()
        own[k.thread_id()] = 0.0
        k.barrier.sync()
        if case == "cleared before":
            out[k.thread_id()] = own[k.thread_id()]
        k.fence.proxy_async()
        k.cluster.sync()
        expect(k, full)
        value = [k.const(1.0, f32)]
        if case == "under a condition":
            with k.if_(n > 3):
                k.async_store.store(own + k.thread_id(), value, full, k.cluster.peer_rank())
        elif case == "other half":
            k.async_store.store(own + (k.thread_id() % 64 + 64), value, full, k.cluster.peer_rank())
        elif case == "to some CTA":
            k.async_store.store(own + k.thread_id(), value, full, n.to(u32) & 1)
        else:
            k.async_store.store(own + k.thread_id(), value, full, k.cluster.peer_rank())
        if case == "waited for elsewhere":
            with k.if_(k.thread_id() < 32):
                k.mbarrier.wait(full, 0)
            k.barrier.sync()
        if case != "cleared before":
            out[k.thread_id()] = own[k.thread_id() % 64] if case == "other half" else own[k.thread_id()]
        with k.if_(n > 100):
            k.mbarrier.wait(other, 0)

    assert UNWAITED not in found(program)


def test_what_is_sent_is_still_there():
    """A copy to a peer reads its source, and so may others, at any time."""

    def program(k, own, full, out, n):
        source = k.shared(f32, 128, align=128)
        source[k.thread_id()] = 1.0
        k.fence.proxy_async()
        k.cluster.sync()
        expect(k, full)
        with k.one_thread():
            k.bulk.store(own, source, 512, barrier=full, rank=k.cluster.peer_rank())
        out[k.thread_id()] = source[k.thread_id()]
        k.mbarrier.wait(full, 0)

    assert found(program) == []


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("send", SENDS)
def test_the_owner_of_an_attached_function_may_wait(send, attached):
    k = KernelBuilder("filled", "sm_90a", threads=128, cluster=2, parameters=[Parameter("out", Pointer(f32, align=16))])
    own, full = k.shared(f32, 128, align=128), k.mbarrier.array(1, 1)
    own[k.thread_id()] = 0.0
    k.fence.proxy_async()
    k.cluster.sync()
    expect(k, full)
    SENDS[send](k, own, full)
    k.arguments[0][k.thread_id()] = own[k.thread_id()]
    k.return_()
    k.core.link()
    k.machine.attributes[ATTACHED] = attached
    assert [one.rule_id for one in check_proxy_protocol(k.machine)] == [UNWAITED] * (not attached)


@pytest.mark.parametrize("copied", ["full", "other", "unknown"])
@pytest.mark.parametrize("waited", ["full", "unknown", None])
@pytest.mark.parametrize("clear", [False, True])
def test_a_wait_is_for_the_copy_where_their_mbarriers_may_be_the_same(copied, waited, clear):
    def program(k, own, full, out, n):
        barriers = {
            "full": full,
            "other": k.mbarrier.array(1, 1),
            "unknown": k.shared_address(n.to(u32), u64, 8, window="cta"),
        }
        k.mbarrier.ready()
        if clear:
            own[k.thread_id()] = 0.0
            k.fence.proxy_async()
            k.barrier.sync()
        with k.one_thread():
            k.mbarrier.arrive(barriers[copied], expect_tx=512)
            k.bulk.load(own, out, 512, barriers[copied])
            if copied != "full":
                k.mbarrier.arrive(full)
        if waited is not None:
            k.mbarrier.wait(barriers[waited], 0)
        out[k.thread_id() + 128] = own[k.thread_id()]
        k.mbarrier.wait(barriers[copied], 0)

    assert (UNWAITED in found(program)) is (waited is None or {copied, waited} == {"full", "other"})
