"""Choices about conditions on data: some number has to be such that all of them hold together."""

from __future__ import annotations

import random
from typing import Any

import pytest

from nvbackend.dry_run.machine.choices import Choices
from nvbackend.dry_run.values.unknown import combine, leaf

_BITS = 32
_MASK = (1 << _BITS) - 1
_NEAR = range(-40, 41)
_HOLDS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "ult": lambda a, b: a & _MASK < b & _MASK,
    "ule": lambda a, b: a & _MASK <= b & _MASK,
    "ugt": lambda a, b: a & _MASK > b & _MASK,
    "uge": lambda a, b: a & _MASK >= b & _MASK,
}


def _whole(value: Any) -> Any:
    """As the machine leaves a register: without the bits above its width."""
    return value & _MASK


def _of(table: dict[Any, Any], kind: int, number: int) -> tuple[Any, Any]:
    """An expression of the one unknown number, and what it is of a number."""
    n = leaf(table, "fresh", 1)
    times = number % 3 + 1
    return (
        (_whole(n + (number & _MASK)), lambda x: x + number),
        (_whole(n - number), lambda x: x - number),
        (_whole(number - n), lambda x: number - x),
        (_whole(_whole(n + 1) * times), lambda x: (x + 1) * times),
        (combine("shl", n, 2), lambda x: x << 2),
        (combine("sext", _whole(n + (number & _MASK)), 32, 64) & (1 << 64) - 1, lambda x: x + number),
    )[kind % 6]


@pytest.mark.parametrize("seed", range(200))
def test_some_number_fits_all_choices(seed: int) -> None:
    pick = random.Random(seed)
    choices, table, told = Choices(first=bool(seed % 2)), {}, []
    for _ in range(12):
        predicate = pick.choice(list(_HOLDS))
        left, made = _of(table, pick.randrange(5), pick.randrange(-4, 5))
        right = pick.randrange(-8, 9)
        found = choices.holds(combine(f"icmp {predicate}", left, right), pick.choice([None, True, False]))
        told.append((predicate, made, right, found))
    fits = [n for n in _NEAR if all(_HOLDS[one](made(n), right) == found for one, made, right, found in told)]
    assert fits, told


def test_two_forms_of_a_sum_agree() -> None:
    """Two rounds of a loop up to n - 1 are one round of a loop up to n - 2, in registers of either width."""
    table: dict[Any, Any] = {}
    choices = Choices(first=True)
    for kind, number, rounds in ((1, 1, 2), (1, 2, 1), (5, -1, 2), (0, -3, 0)):
        bound, _ = _of(table, kind, number)
        made = 0
        while choices.holds(combine("icmp slt", made, bound), made < 2):
            made += 1
        assert made == rounds, (kind, number)


def test_differences_of_two_numbers_agree() -> None:
    table: dict[Any, Any] = {}
    choices = Choices(first=True)
    low, high = leaf(table, "fresh", 1), leaf(table, "fresh", 2)
    assert choices.holds(combine("icmp slt", low, high))
    assert choices.holds(combine("icmp slt", _whole(low + 3), _whole(high + 3)), False)
    assert not choices.holds(combine("icmp sgt", _whole(2 * low), _whole(2 * high)), True)


def test_a_negative_number_is_great_without_its_sign() -> None:
    """`n - 1 < 4` without a sign says that n is 1 to 4."""
    table: dict[Any, Any] = {}
    choices = Choices(first=True)
    n = leaf(table, "fresh", 1)
    assert choices.holds(combine("icmp eq", n, 0))
    assert not choices.holds(combine("icmp ult", _whole(n - 1), 4), True)
