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
    """None in a single letter, one in a name of fewer than ten, two in a longer one."""
    return min(len(name) - 1, 1 if len(name) < 10 else 2)


def slipped(name: str, times: int, chance: random.Random) -> str:
    """`name` after so many slips at random places."""
    letters = list(name)
    for _ in range(times):
        at = chance.randrange(len(letters))
        letters[at : at + chance.choice((0, 1))] = chance.choice(("", "d"))
        letters[at : at + 2] = letters[at : at + 2][:: chance.choice((1, -1))]
    return "".join(letters)


@pytest.mark.parametrize("seed", SEEDS)
def test_names_that_are_near_enough_come_nearest_first(seed: int) -> None:
    chance = random.Random(seed)
    known = ["".join(chance.choices("abc", k=chance.randint(1, 13))) for _ in range(60)]
    for name in ["".join(chance.choices("abc", k=chance.randint(1, 13))) for _ in range(60)]:
        near = sorted({(slips(name, each), each) for each in known if slips(name, each) <= allowed(name)})
        assert list(dict.fromkeys(misspelt(name, known))) == [each for _, each in near]


@pytest.mark.parametrize("length", [4, 5, 9, 10, 14, 15, 19, 20, 25])
def test_a_name_of_any_length_has_two_slips_at_most(length: int) -> None:
    chance = random.Random(length)
    name = "".join(chance.choices("abc", k=length))
    known = {slipped(name, times, chance) for times in range(5) for _ in range(12)}
    assert {slips(name, each) for each in known} >= {0, 1, 2, 3}
    assert set(misspelt(name, known)) == {each for each in known if slips(name, each) <= allowed(name)}


def test_no_more_than_three_names_are_asked_for() -> None:
    assert one_of("waits", ["waitb", "waita", "waitd", "waitc"]) == (
        "did you mean waita or waitb or waitc? Otherwise use one of waitb, waita, waitd, waitc"
    )


def test_of_a_letter_nothing_is_left_after_a_slip() -> None:
    assert misspelt("T", ["at", "t"]) == ["t"]
    assert misspelt("ax", ["at"]) == ["at"]


def test_a_name_that_is_longer_is_not_asked() -> None:
    assert one_of("wait", ["wait_for_all_of_them", "waits"]) == (
        "did you mean waits? Otherwise use one of wait_for_all_of_them, waits"
    )
    assert one_of("wait", ["wait_for_all_of_them"]) == "use wait_for_all_of_them"
