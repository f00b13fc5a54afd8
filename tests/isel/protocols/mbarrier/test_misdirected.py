"""Copies on the other of two mbarriers: one mistake is told exactly where moving copies puts both right."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import u32
from tests.support.runtime import broken

ASTRAY = "mbarrier.wrong-barrier"
NAMES = ("first", "second", "third")
COPYING = [
    lambda k, *operands: k.bulk.load(*operands),
    lambda k, *operands: k.bulk.load(*operands),
    lambda k, *operands: k.bulk.load(*operands),
]
"""The copies of one barrier, each on a line of its own."""
Copies = tuple[int, ...]
"""The bytes of the copies that complete on one barrier."""


def told(announced: tuple[int, ...], copies: tuple[Copies, ...]) -> list[nvb.Diagnostic]:
    """What is said where one thread announces so many bytes on each of some barriers, and copies so many."""

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, x: nvb.Pointer(u32, 16)):
        barriers = [k.mbarrier.array(1, arrivals=1, name=name) for name in NAMES[: len(copies)]]
        k.mbarrier.ready()
        with k.one_thread():
            for barrier, number in zip(barriers, announced, strict=True):
                k.mbarrier.arrive(barrier, **({"expect_tx": number} if number else {}))
            for barrier, sizes in zip(barriers, copies, strict=True):
                for copy, size in zip(COPYING, sizes, strict=False):
                    copy(k, k.shared(u32, size // 4, align=128), x, size, barrier)
        for barrier in barriers:
            k.mbarrier.wait(barrier, 0)

    return [one for one in broken(kernel.build) if one.rule_id.startswith("mbarrier.")]


def astray(announced: tuple[int, int], copies: tuple[Copies, Copies]) -> int | None:
    """The barrier that gets another one's copies: one copy moved, or those of both exchanged, puts both right."""
    brought = tuple(map(sum, copies))
    for over, short in ((0, 1), (1, 0)):
        lacks = announced[short] - brought[short]
        if lacks <= 0:
            continue
        if lacks in copies[over] and brought[over] - lacks == announced[over]:
            return over
        if (brought[over], announced[over]) == (announced[short], brought[short]):
            return over
    return None


CASES = [
    ((0, 48), ((48,), ())),
    ((48, 0), ((), (48,))),
    ((32, 48), ((32, 48), ())),
    ((32, 48), ((48, 32), ())),
    ((32, 80), ((32, 48), (32,))),
    ((32, 80), ((32, 48), (48,))),
    ((32, 80), ((80,), (32,))),
    ((80, 32), ((32,), (80,))),
    ((80, 32), ((32,), (16, 64))),
    ((32, 96), ((48, 48), (32,))),
    ((32, 48), ((32, 16, 32), ())),
    ((32, 48), ((32,), (16,))),
    ((32, 48), ((32, 48), (48,))),
    ((32, 48), ((80,), ())),
    ((32, 48), ((64,), ())),
    ((32, 48), ((32,), (48,))),
    ((16, 16), ((16, 16), ())),
    ((32, 80), ((48, 32), (32,))),
]


@pytest.mark.parametrize(("announced", "copies"), CASES)
def test_one_mistake_where_copies_go_astray(announced: tuple[int, int], copies: tuple[Copies, Copies]) -> None:
    found, over = told(announced, copies), astray(announced, copies)
    if over is None:
        assert all(one.rule_id != ASTRAY for one in found)
        wrong = [announced[number] != sum(copies[number]) for number in range(2)]
        assert len(found) == sum(wrong)
        return
    (one,) = found
    assert one.rule_id == ASTRAY
    short = 1 - over
    values = one.values
    assert (values["gets"], values["announces"]) == (sum(copies[over]), announced[over])
    assert (values["bytes"], values["has"]) == (announced[short], sum(copies[short]))
    assert (str(values["barrier"]), values["other"]) == (f"mbarrier {NAMES[over]}", f"mbarrier {NAMES[short]}")
    lacks = announced[short] - sum(copies[short])
    assert (f"on mbarrier {NAMES[over]}" in one.fix) == (lacks not in copies[over] and bool(copies[short]))
    moved = max(number for number, size in enumerate(copies[over]) if size == lacks or lacks not in copies[over])
    assert one.location is not None
    assert one.location.line == COPYING[moved].__code__.co_firstlineno


@pytest.mark.parametrize("lacking", [(48, 48), (48, 32), (32, 48)])
def test_what_goes_to_one_barrier_is_missing_on_another_still(lacking: tuple[int, int]) -> None:
    """One of three gets 48 bytes too much, and each of the others lacks some."""
    found = told((0, *lacking), ((48,), (), ()))
    assert sorted(one.rule_id for one in found) == ["mbarrier.missing-bytes", ASTRAY]
    (one,) = (one for one in found if one.rule_id == ASTRAY)
    assert one.values["bytes"] == 48
    assert one.values["other"] == f"mbarrier {NAMES[1 + lacking.index(48)]}"
