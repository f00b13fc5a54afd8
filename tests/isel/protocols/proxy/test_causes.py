"""What of the proxies is told by itself and what together, and how a barrier is called."""

from __future__ import annotations

import pytest

from nvbackend import u32
from tests.support.proxy_program import Program


@pytest.mark.parametrize(
    ("second", "expected"),
    [("write", ["proxy.missing-fence"]), ("load", ["proxy.missing-fence", "proxy.read-before-wait"])],
)
def test_what_one_fence_does_not_put_right_is_told_by_itself(second: str, expected: list[str]) -> None:
    """Both tiles are read by the same mma: a fence is for both that threads write, and for no copy."""
    p = Program()
    p.write(p.other)
    p.write() if second == "write" else p.load()
    with p.k.wgmma.group():
        p.mma(p.accumulator(), p.tile, p.other)
    found = p.found()
    assert [one.rule_id for one in found] == expected
    names = ["tile, other"] if second == "write" else ["other", "tile"]
    assert [[note for note, _ in one.notes] for one in found] == [
        [f"{name} is written here" for name in reversed(text.split(", "))] for text in names
    ]
    assert all(f"shared memory {text}" in one.message for one, text in zip(found, names, strict=True))


@pytest.mark.parametrize(("name", "called"), [("full", "mbarrier full"), (None, "the mbarrier of the copy")])
def test_the_barrier_to_wait_on_is_named_where_it_has_a_name(name: str | None, called: str) -> None:
    p = Program()
    p.load(barrier=p.k.mbarrier.array(1, 1, **({"name": name} if name else {})))
    p.k.mma.ldmatrix(p.tile.address + p.k.lane_id() * 16, 1)
    (found,) = p.found()
    assert called in f"{found.message} {found.fix}"


@pytest.mark.parametrize(("commits", "reason"), [(0, "has closed its group"), (1, "fewer than 1 group ")])
def test_the_reason_is_the_commit_or_the_wait_that_is_missing(commits: int, reason: str) -> None:
    p = Program()
    buffer = p.k.shared(u32, 4 * 128, align=16, name="buffer")
    p.k.cp_async.copy(buffer + p.k.thread_id() * 4, p.pointer, 16)
    for _ in range(commits):
        p.k.cp_async.commit_group()
    p.k.barrier.sync()
    p.k.mma.ldmatrix(buffer + p.k.lane_id() * 4, 1)
    (found,) = p.found()
    assert reason in f"{found.message} {found.fix}"


@pytest.mark.parametrize("is_one_line", [True, False])
def test_what_is_on_one_line_is_told_once(is_one_line: bool) -> None:
    """Two copies that nobody waits for are read in two blocks, on one line of Python or on two."""
    p = Program()
    p.load(p.tile)
    p.load(p.other)
    lane = p.k.lane_id() * 16
    sides = ((lambda: p.k.if_(p.k.thread_id() < 64), p.tile), (p.k.else_, p.other))
    if is_one_line:
        for side, tile in sides:
            with side():
                p.k.mma.ldmatrix(tile.address + lane, 1)
    else:
        with sides[0][0]():
            p.k.mma.ldmatrix(p.tile.address + lane, 1)
        with sides[1][0]():
            p.k.mma.ldmatrix(p.other.address + lane, 1)
    assert [one.rule_id for one in p.found()] == ["proxy.read-before-wait"] * (1 if is_one_line else 2)


def test_of_four_writes_three_are_listed() -> None:
    """Two tiles, written on either side of a branch, and all read by one mma."""
    p = Program()
    tile, other = (one.address.byte_offset(p.k.thread_id() * 16, align=16).cast(u32) for one in (p.tile, p.other))
    with p.k.if_(p.n > 0):
        tile.store(1)
        other.store(2)
    with p.k.else_():
        tile.store(3)
        other.store(4)
    with p.k.wgmma.group():
        p.mma(p.accumulator(), p.tile, p.other)
    (found,) = p.found()
    assert len(found.notes) == 3


def test_mistakes_are_told_in_the_order_of_the_readers() -> None:
    """Two tiles that are written one after the other, and read the other way round."""
    p = Program()
    p.write(p.tile)
    p.load(p.other)
    with p.k.wgmma.group():
        p.mma(p.accumulator(), p.other, p.other)
    with p.k.wgmma.group():
        p.mma(p.accumulator(), p.tile, p.tile)
    assert [one.rule_id for one in p.found()] == ["proxy.read-before-wait", "proxy.missing-fence"]
