"""Copies that fill memory which threads have written: the proxies need a fence between the two."""

from __future__ import annotations

import pytest

from nvbackend import u32
from tests.support.proxy_program import Program


def _found(p: Program) -> list[str]:
    return [one.rule_id for one in p.found()]


def test_a_write_may_come_after_the_copy_that_follows_it() -> None:
    """Once: what reads the tile then reads what the copy brought."""
    p = Program()
    with p.k.one_thread():
        p.tile.address.cast(u32).store(1)
        p.k.tma.load(p.tile, p.map, (0, 0), p.full)
        p.k.mbarrier.wait(p.full, 0)
        p.k.tma.store(p.map, (0, 0), p.tile)
        p.k.tma.commit_group()
        p.k.tma.wait_group()
    (found,) = p.found()
    assert found.rule_id == "proxy.missing-fence"
    assert "the cp.async.bulk.tensor of line" in found.message
    assert "overwrites shared memory tile" in found.message


def test_a_write_into_what_is_read_is_told_alone() -> None:
    """The write is too early: where it belongs, a fence may follow."""
    p = Program()
    p.write()
    p.k.fence.proxy_async()
    p.k.barrier.sync()
    p.store(wait=False)
    p.write()
    p.k.barrier.sync()
    with p.k.one_thread():
        p.k.tma.load(p.tile, p.map, (0, 0), p.full)
    p.k.mbarrier.wait(p.full, 0)
    assert "proxy.missing-fence" not in _found(p)


def test_a_copy_to_another_part_needs_no_fence() -> None:
    p = Program()
    buffer = p.k.shared(u32, 256, align=16, name="buffer")
    buffer[p.k.thread_id() % 128] = 1
    p.k.barrier.sync()
    with p.k.one_thread():
        p.k.bulk.load(buffer + 128, p.pointer, 512, p.full)
    p.k.mbarrier.wait(p.full, 0)
    assert _found(p) == []


def test_a_read_needs_no_fence_before_a_copy() -> None:
    """An mbarrier or a barrier is enough: the pipelines of CUTLASS release their stages so."""
    p = Program()
    (value,) = p.tile.address.cast(u32).byte_offset(p.k.thread_id() * 4, align=4).load()
    p.k.barrier.sync()
    with p.k.one_thread():
        p.k.tma.load(p.tile, p.map, (0, 0), p.full)
    p.k.mbarrier.wait(p.full, 0)
    p.pointer.cast(u32)[p.k.thread_id()] = value
    assert "proxy.missing-fence" not in _found(p)


@pytest.mark.parametrize(
    ("fence", "rules"), [(None, ["proxy.missing-fence"]), ("before", ["proxy.missing-fence"]), ("after", [])]
)
def test_cp_async_writes_through_the_generic_proxy(fence, rules) -> None:
    """PTX ISA 8.6 (proxies): of the copies, the bulk ones alone are of the async proxy."""
    p = Program()
    buffer = p.k.shared(u32, 128, align=16, name="buffer")
    thread = p.k.thread_id()
    if fence == "before":
        p.k.fence.proxy_async()
    p.k.cp_async.copy(buffer + thread, p.pointer.cast(u32) + thread, 4)
    p.k.cp_async.commit_group()
    p.k.cp_async.wait_group(0)
    if fence == "after":
        p.k.fence.proxy_async()
    p.k.barrier.sync()
    with p.k.one_thread():
        p.k.bulk.load(buffer, p.pointer, 512, p.full)
    p.k.mbarrier.wait(p.full, 0)
    assert _found(p) == rules


@pytest.mark.parametrize("reader", ["store", "multiply"])
@pytest.mark.parametrize("fenced", [False, True])
def test_what_cp_async_has_copied_is_read_after_a_fence(reader: str, *, fenced: bool) -> None:
    p = Program()
    place = p.k.thread_id() * 16
    p.k.cp_async.copy(p.tile.address.byte_offset(place, align=16), p.pointer.byte_offset(place, align=16), 16)
    p.k.cp_async.commit_group()
    p.k.cp_async.wait_group(0)
    if fenced:
        p.k.fence.proxy_async()
    p.k.barrier.sync()
    if reader == "store":
        p.store(wait=True)
    else:
        p.mma(p.accumulator())
    found = [one for one in p.found() if one.rule_id == "proxy.missing-fence"]
    assert [("after the wait for the cp.async" in str(one.fix)) for one in found] == [True] * (not fenced)


def test_cp_async_may_fill_a_buffer_again() -> None:
    """Both by the generic proxy: stages of Triton's and CUTLASS's pipelines on sm_80."""
    p = Program()
    buffer, thread = p.k.shared(u32, 128, align=16, name="buffer"), p.k.thread_id()
    for _ in range(2):
        p.k.cp_async.copy(buffer + thread, p.pointer.cast(u32) + thread, 4)
        p.k.cp_async.commit_group()
        p.k.cp_async.wait_group(0)
        p.k.barrier.sync()
    p.load()
    p.k.mbarrier.wait(p.full, 0)
    assert _found(p) == []


def test_a_write_that_is_too_early_wants_a_fence_for_what_reads_it_too() -> None:
    """Waiting for the mma and fencing what the next copy sends are two repairs."""
    p = Program()
    p.load()
    p.k.mbarrier.wait(p.full, 0)
    p.store(wait=False)
    p.write()
    p.k.barrier.sync()
    p.store(wait=True)
    assert _found(p) == ["proxy.write-in-flight", "proxy.missing-fence"]


@pytest.mark.parametrize("second", ["store", "load"])
@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("shift", [0, 2048])
def test_bytes_that_each_thread_writes_for_itself(second: str, fenced: bool, shift: int) -> None:
    """Threads write words of a tile and one copies some of them: wrong though a later copy comes after a fence."""
    p = Program()
    tile = p.tile.address.cast(u32)
    tile.byte_offset((127 - p.k.thread_id()) * 16 + shift, align=16).store(1)
    p.k.barrier.sync()
    if fenced:
        p.k.fence.proxy_async()
        p.k.barrier.sync()
    with p.k.one_thread():
        if second == "load":
            p.k.mbarrier.arrive(p.full, expect_tx=2048)
            p.k.bulk.load(tile, p.pointer, 2048, p.full)
        else:
            p.k.bulk.store(p.pointer, tile, 2048)
            p.k.tma.commit_group()
            p.k.tma.wait_group()
    if second == "load":
        p.k.mbarrier.wait(p.full, 0)
    p.k.fence.proxy_async()
    p.k.barrier.sync()
    with p.k.one_thread():
        p.k.bulk.store(p.pointer, tile.byte_offset(shift, align=16), 2048)
        p.k.tma.commit_group()
        p.k.tma.wait_group()
    wrong = not fenced and not shift
    assert ("proxy.missing-fence" in _found(p)) is wrong


def test_what_reads_too_early_may_be_overwritten_too_early() -> None:
    """The store reads what no fence publishes, and the copy comes while it reads: two mistakes of one access."""
    p = Program()
    p.write()
    p.k.barrier.sync()
    p.store(wait=False)
    with p.k.one_thread():
        p.k.tma.load(p.tile, p.map, (0, 0), p.full)
    p.k.mbarrier.wait(p.full, 0)
    assert _found(p)[:2] == ["proxy.missing-fence", "proxy.write-in-flight"]
