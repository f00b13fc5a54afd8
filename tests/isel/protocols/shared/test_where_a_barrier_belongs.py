"""The barrier that a race lacks: before the branch of the second access, and of those alone who come there."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32
from tests.support.runtime import broken, rules

F32 = Pointer(f32, align=16)


def stored(role: str, added: str = "") -> nvb.KernelDefinition:
    """Threads of a role write a row, one of them stores it; `added` are the arguments of the barrier between."""

    @nvb.kernel("sm_90", threads=160)
    def rows(k, y: F32, n: i32(minimum=1)):
        row, thread = k.shared(f32, 160, align=128, name="row"), k.thread_id()
        conditions = {"all": thread >= 0, "warps": k.warp_id() < 4, "threads": thread < 80}
        with k.if_(conditions[role]), k.range(n) as i:
            row[thread] = 1.0
            k.fence.proxy_async()
            if added:
                k.barrier.sync(*(int(each) for each in added.split(", ") if each))
            with k.if_(thread == 0):
                k.bulk.store(y + i * 160, row, 512)
                k.tma.commit_group()
                k.tma.wait_group(0, reading=True)
            if role == "warps":
                k.barrier.sync(2, 128)
            elif role == "all":
                k.barrier.sync()

    return rows


@pytest.mark.parametrize(
    ("role", "fix", "numbers"),
    [
        (
            "warps",
            r"put k\.barrier\.sync\(number, 128\) before the branch of line \d+ on `tid\.x == 0`, a named",
            "1, 128",
        ),
        (
            "all",
            r"put k\.barrier\.sync\(\) before the branch of line \d+ on `tid\.x == 0`, where all threads come",
            ", ",
        ),
    ],
)
def test_before_the_branch_of_who_reads(role: str, fix: str, numbers: str) -> None:
    """Of all threads where all come there, else of those of the role."""
    (found,) = broken(stored(role).build)
    assert found.rule_id == "shared.missing-barrier"
    assert re.match(fix, found.fix or ""), found.fix
    assert rules(stored(role, numbers).build) == []


def test_a_branch_that_parts_warps_ends_before_the_barrier() -> None:
    """No barrier may be inside of it, wherever the inner branch is."""
    found = next(one for one in broken(stored("threads").build) if one.rule_id == "shared.missing-barrier")
    assert re.match(r"end the block of the branch of line \d+ on `tid\.x < 80` between the two, put ", found.fix or "")
