"""Where wgmma's protocol says that mma are in flight too long, what it reads is not told a second time."""

from __future__ import annotations

import pytest

from nvbackend.isel.protocols.wgmma.protocol import check_wgmma_protocol
from tests.support.proxy_program import Program


def found(*, read: bool, needless: bool, last: bool) -> tuple[set[str], set[str]]:
    """What wgmma's protocol and the proxies' say of a tile that is written while an mma reads it.

    The accumulator is `read` before the wait, a `needless` fence is between two mma, the `last` wait is there.
    """
    p = Program()
    acc = p.accumulator()
    p.k.wgmma.fence()
    p.mma(acc)
    if needless:
        p.k.wgmma.fence()
    p.mma(acc)
    p.k.wgmma.commit_group()
    p.write()
    if read:
        p.pointer.byte_offset(p.k.thread_id() * 4, align=4).cast(acc[0].type).store(acc[0])
    if last:
        p.k.wgmma.wait_group(0, drains=[acc])
    proxies = {one.rule_id for one in p.found()}
    return {one.rule_id for one in check_wgmma_protocol(p.k.machine)}, proxies


@pytest.mark.parametrize("needless", [False, True])
@pytest.mark.parametrize(("read", "last"), [(False, True), (True, True), (False, False), (True, False)])
def test_a_write_in_flight_is_told_once(read: bool, needless: bool, last: bool) -> None:
    of_wgmma, of_proxies = found(read=read, needless=needless, last=last)
    waits = {rule for rule in of_wgmma if rule != "wgmma.needless-fence"}
    assert bool(waits) is (read or not last)
    assert ("wgmma.needless-fence" in of_wgmma) is needless
    assert of_proxies == (set() if waits else {"proxy.write-in-flight"})


def wrong(mistake: str) -> tuple[set[str], set[str]]:
    """What both say of a tile that is written while an mma reads it, with a `mistake` in how it is waited for."""
    p = Program()
    acc = p.accumulator()
    p.k.wgmma.fence()
    p.mma(acc)
    if mistake != "missing-commit":
        p.k.wgmma.commit_group()
    p.write()
    if mistake == "read-in-flight":
        p.pointer.cast(acc[0].type).store(acc[0])
    if mistake == "write-in-flight":
        acc.fill(1.0)
    if mistake != "missing-wait":
        p.k.wgmma.wait_group(int(mistake == "wait-leaves-group"), drains=[acc])
    proxies = {one.rule_id for one in p.found()}
    return {one.rule_id for one in check_wgmma_protocol(p.k.machine)}, proxies


@pytest.mark.parametrize(
    "mistake", ["read-in-flight", "write-in-flight", "missing-commit", "wait-leaves-group", "missing-wait"]
)
def test_each_wrong_wait_alone_is_enough(mistake: str) -> None:
    assert wrong(mistake) == ({f"wgmma.{mistake}"}, set())


def test_the_right_wait_leaves_it_to_the_proxies() -> None:
    assert wrong("") == (set(), {"proxy.write-in-flight"})


@pytest.mark.parametrize("wrong_wait", [False, True])
def test_a_wrong_wait_says_nothing_of_another_tile(wrong_wait: bool) -> None:
    """What ordinary code has written is stored without a fence, whatever is wrong with the mma of other tiles."""
    p = Program()
    acc = p.accumulator()
    p.write(p.other)
    p.store(p.other, wait=True)
    p.k.wgmma.fence()
    p.mma(acc)
    p.k.wgmma.commit_group()
    p.write()
    p.k.wgmma.wait_group(int(wrong_wait), drains=[acc])
    expected = ["proxy.missing-fence", *([] if wrong_wait else ["proxy.write-in-flight"])]
    assert [one.rule_id for one in p.found()] == expected
