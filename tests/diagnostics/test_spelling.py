"""Names that may be meant by a wrong one: against a count of slips by its definition, on random names."""

from __future__ import annotations

import functools
import random

import pytest

from nvbackend.diagnostics.spelling import misspelt, one_of

SEEDS = range(6)


@functools.cache
def slips(a: str, b: str) -> int:
    """Letters to change, add or drop, and neighbours to swap, that make `b` of `a`."""
    if not a or not b:
        return len(a) + len(b)
    ways = [slips(a[1:], b) + 1, slips(a, b[1:]) + 1, slips(a[1:], b[1:]) + (a[0] != b[0])]
    if a[:2] == b[:2][::-1] and len(a) > 1:
        ways.append(slips(a[2:], b[2:]) + 1)
    return min(ways)


def allowed(name: str) -> int:
    """One in a name of fewer than ten letters, two in a longer one."""
    return 1 if len(name) < 10 else 2


@pytest.mark.parametrize("seed", SEEDS)
def test_names_that_are_near_enough_come_nearest_first(seed: int) -> None:
    chance = random.Random(seed)
    known = ["".join(chance.choices("abc", k=chance.randint(1, 13))) for _ in range(60)]
    for name in ["".join(chance.choices("abc", k=chance.randint(1, 13))) for _ in range(60)]:
        near = sorted({(slips(name, each), each) for each in known if slips(name, each) <= allowed(name)})
        assert list(dict.fromkeys(misspelt(name, known))) == [each for _, each in near]


def test_a_name_that_is_longer_is_not_asked() -> None:
    assert one_of("wait", ["wait_for_all_of_them", "waits"]) == (
        "did you mean waits? Otherwise use one of wait_for_all_of_them, waits"
    )
    assert one_of("wait", ["wait_for_all_of_them"]) == "use wait_for_all_of_them"
