"""Choices about conditions on data: some numbers have to be such that all of them hold together."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.dry_run.machine.choices import Choices, Guessed, Policy
from nvbackend.dry_run.values.divisors import LoopEnds, together
from nvbackend.dry_run.values.unknown import combine, leaf
from nvbackend.dry_run.values.vectors import Lanes
from tests.dry_run.refusals import refusals

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


def _asked(predicate: str, left: Any, right: Any) -> Any:
    numbers = (_whole(one) if isinstance(one, int) else one for one in (left, right))
    return combine(f"icmp {predicate} i{_BITS}", *numbers)


def _of(table: dict[Any, Any], kind: int, number: int) -> tuple[Any, Callable[[int], int]]:
    """An expression of the one unknown number, and what it is of a number."""
    n = leaf(table, "fresh i32", 1)
    times = number % 3 + 1
    return (
        (_whole(n + (number & _MASK)), lambda x: x + number),
        (_whole(n - number), lambda x: x - number),
        (_whole(number - n), lambda x: number - x),
        (_whole(_whole(n + 1) * times), lambda x: (x + 1) * times),
        (combine("shl i32", n, 2), lambda x: x << 2),
        (combine("ashr i32", n, 1), lambda x: x >> 1),
        (combine("sdiv i32", n, times + 1), lambda x: abs(x) // (times + 1) * (-1 if x < 0 else 1)),
        (combine("smin i32", n, number & _MASK), lambda x: min(x, number)),
        (n & times, lambda x: x & times),
        (combine("select", _asked("slt", n, number), n, 3), lambda x: x if x < number else 3),
        (combine("trunc", combine("sext", _whole(n + 1), 32, 64), 32), lambda x: x + 1),
    )[kind]


_KINDS = range(11)


@pytest.mark.parametrize("seed", range(200))
def test_some_number_fits_all_choices(seed: int) -> None:
    pick = random.Random(seed)
    choices, table, told = Choices(Policy(first_way=bool(seed % 2))), {}, []
    for _ in range(12):
        predicate = pick.choice(list(_HOLDS))
        left, made = _of(table, pick.choice(_KINDS), pick.randrange(-4, 5))
        right = pick.randrange(-8, 9)
        found = choices.holds(_asked(predicate, left, right), pick.choice([None, True, False]))
        told.append((predicate, made, right, found))
    fits = [n for n in _NEAR if all(_HOLDS[one](made(n), right) == found for one, made, right, found in told)]
    assert fits, told


@pytest.mark.parametrize("seed", range(100))
def test_some_two_numbers_fit_all_choices(seed: int) -> None:
    """Sums, products and differences of two numbers."""
    pick = random.Random(seed)
    choices, table, told = Choices(Policy(first_way=bool(seed % 2))), {}, []
    low, high = leaf(table, "fresh i32", 1), leaf(table, "fresh i32", 2)
    forms = (
        (low, lambda x, _: x),
        (high, lambda _, y: y),
        (_whole(low + high), lambda x, y: x + y),
        (_whole(high - low), lambda x, y: y - x),
        (_whole(low * high), lambda x, y: x * y),
        (combine("smax i32", low, high), max),
    )
    for _ in range(10):
        predicate, (left, made), right = pick.choice(list(_HOLDS)), pick.choice(forms), pick.randrange(-4, 9)
        found = choices.holds(_asked(predicate, left, right), pick.choice([None, True, False]))
        told.append((predicate, made, right, found))
    fits = any(all(_HOLDS[one](made(*pair), right) == found for one, made, right, found in told)
               for pair in product(_NEAR, _NEAR))  # fmt: skip
    assert fits, told


def _rounds(choices: Choices, bound: Any, wanted: int) -> int:
    made = 0
    while choices.holds(_asked("slt", made, bound), made < wanted):
        made += 1
    return made


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("of", [3, 5, 6, 48])
def test_numbers_of_an_array_that_are_multiples(of: int, first: bool) -> None:
    table: dict[Any, Any] = {}
    choices = Choices(Policy(first_way=first, multiples={"lengths": of}))
    lengths, other = (combine("load i32", leaf(table, "parameter", name)) for name in ("lengths", "other"))
    assert choices.holds(_asked("slt", of + 1, lengths), True)
    assert not choices.holds(_asked("slt", 2 * of, lengths), False)
    assert choices.number(lengths) == 2 * of
    assert choices.holds(_asked("eq", other, of + 1), True)


def _ended(bound: Any, counters: list[int]) -> LoopEnds:
    ends = LoopEnds()
    for counter in counters:
        ends.add(0, _asked("slt", counter, bound))
    return ends


def test_what_numbers_are_divided_by_where_loops_end() -> None:
    table: dict[Any, Any] = {}
    n, m = (combine("load i32", leaf(table, "parameter", name)) for name in ("n", "m"))
    counted = [0, 1, 2]
    assert _ended(n, counted).divisors() == {}
    assert _ended(n, [0, 5, 15]).divisors() == {"n": 5}
    assert _ended(combine("sdiv i32", n, 7), [0, 3]).divisors() == {"n": 7}
    assert _ended(combine("sdiv i32", _whole(n - m), 7), counted).divisors() == {"n": 7, "m": 7}
    assert _ended(combine("ashr i32", n, 3), counted).divisors() == {"n": 8}
    assert _ended(combine("sdiv i32", _whole(n + 6), 7), counted).divisors() == {}
    both = _ended(combine("sdiv i32", n, 7), counted)
    both.add(1, _asked("slt", 0, combine("sdiv i32", _whole(n + 6), 7)))
    assert both.divisors() == {}
    both.add(2, _asked("slt", 0, combine("sdiv i32", m, 7)))
    assert both.divisors() == {"m": 7}
    assert _ended(combine("srem i32", n, 7), counted).divisors() == {}
    assert _ended(combine("sdiv i32", leaf(table, "fresh i32", 1), 7), counted).divisors() == {}
    assert together({"n": 4, "m": 3}, {"n": 6}) == {"n": 12, "m": 3}
    assert together({"n": 4095}, {"n": 4093}) == {"n": 4095}


def test_two_forms_of_a_sum_agree() -> None:
    """Two rounds of a loop up to n - 1 are one round of a loop up to n - 2, in registers of either width."""
    table: dict[Any, Any] = {}
    choices = Choices(Policy(first_way=True))
    for kind, number, rounds in ((1, 1, 2), (1, 2, 1), (10, 0, 4), (0, -3, 0)):
        bound, _ = _of(table, kind, number)
        assert _rounds(choices, bound, 2) == rounds, (kind, number)


def test_a_loop_of_the_sum_makes_the_rounds_of_both() -> None:
    table: dict[Any, Any] = {}
    choices = Choices(Policy(first_way=True))
    low, high = leaf(table, "fresh i32", 1), leaf(table, "fresh i32", 2)
    assert [_rounds(choices, one, 2) for one in (low, high)] == [2, 2]
    assert _rounds(choices, _whole(low + high), 2) == 4


def test_differences_of_two_numbers_agree() -> None:
    table: dict[Any, Any] = {}
    choices = Choices(Policy(first_way=True))
    low, high = leaf(table, "fresh i32", 1), leaf(table, "fresh i32", 2)
    assert choices.holds(_asked("slt", low, high))
    assert choices.holds(_asked("slt", _whole(low + 3), _whole(high + 3)), False)
    assert not choices.holds(_asked("sgt", _whole(2 * low), _whole(2 * high)), True)


def test_a_negative_number_is_great_without_its_sign() -> None:
    """`n - 1 < 4` without a sign says that n is 1 to 4."""
    table: dict[Any, Any] = {}
    choices = Choices(Policy(first_way=True))
    n = leaf(table, "fresh i32", 1)
    assert choices.holds(_asked("eq", n, 0))
    assert not choices.holds(_asked("ult", _whole(n - 1), 4), True)


def test_one_address_has_one_number() -> None:
    """Two forms of an address load the same; another address loads what may differ."""
    table: dict[Any, Any] = {}
    choices = Choices(Policy(first_way=True))
    base, tile = leaf(table, "parameter", "lengths"), leaf(table, "fresh i32", 1)
    first = combine("load i32", base + _whole(_whole(tile * 2 + 1) * 4))
    again = combine("load i32", base + _whole(_whole(tile * 8) + 4))
    other = combine("load i32", base + _whole(tile * 8))
    assert first is not again
    assert choices.holds(_asked("eq", first, 5))
    assert choices.holds(_asked("eq", again, 5), False)
    assert not choices.holds(_asked("eq", other, 5), False)


def test_all_parts_of_a_condition_are_chosen_together() -> None:
    table: dict[Any, Any] = {}
    low, high = leaf(table, "fresh i32", 1), leaf(table, "fresh i32", 2)
    both = combine("and", _asked("sgt", low, 3), _asked("sgt", high, 5))
    either = combine("select", _asked("slt", low, 0), _asked("eq", high, 2), _asked("eq", low, 9))
    assert Choices(Policy(first_way=True)).holds(both)
    assert not Choices(Policy(first_way=False)).holds(both)
    assert not Choices(Policy(first_way=True)).holds(combine("xor", both, 1), False)
    assert Choices(Policy(first_way=True)).holds(either)


def test_what_is_assumed_stays_true() -> None:
    table: dict[Any, Any] = {}
    choices, n = Choices(Policy(first_way=False)), leaf(table, "fresh i32", 1)
    choices.assume(_asked("sge", n, 3))
    assert not choices.holds(_asked("slt", n, 3), True)
    with pytest.raises(Guessed):
        choices.assume(_asked("slt", n, 0))


def test_a_number_keeps_its_value_where_the_other_ways_are_taken() -> None:
    """One side ends with the first number that is no tile: so does the other, or it waits for ever."""
    table: dict[Any, Any] = {}
    tile = leaf(table, "fresh i32", 1)
    first, other = Choices(Policy(first_way=True)), Choices(Policy(first_way=False))
    assert first.holds(_asked("sge", tile, 6), True) and other.holds(_asked("sge", tile, 6), True)
    assert first.holds(_asked("sgt", tile, 6), True)
    assert not other.holds(_asked("sgt", tile, 6), True)


def test_lanes_that_cannot_agree_are_not_judged() -> None:
    table: dict[Any, Any] = {}
    choices, n = Choices(Policy(first_way=True)), leaf(table, "fresh i32", 1)
    lane = Lanes([*range(32)])
    assert choices.holds(_asked("slt", combine("add", n, lane), 40))
    assert choices.holds(_asked("sge", n, 0))
    assert choices.holds(_asked("slt", n, 8))
    with pytest.raises(Guessed):
        choices.holds(_asked("slt", combine("add", n, lane), 20))


def test_lanes_that_a_condition_names_are_taken_apart_from_its_data() -> None:
    """`a[0] > 3 and lane < 4` is data and lanes: where the data lets it hold, four lanes go."""
    table: dict[Any, Any] = {}
    n, few = leaf(table, "fresh i32", 1), Lanes([1] * 4 + [0] * 28)
    greater = _asked("sgt", n, 3)
    assert Choices(Policy(first_way=True)).lanes(combine("and", greater, few)) == few
    assert Choices(Policy(first_way=False)).lanes(combine("and", greater, few)) == 0
    assert Choices(Policy(first_way=True)).lanes(combine("or", few, greater)) == 1
    assert Choices(Policy(first_way=False)).lanes(combine("or", few, greater)) == few
    assert Choices(Policy(first_way=True)).lanes(combine("xor", combine("and", few, greater), 1)) == 1 - few


@nvb.kernel("sm_90", threads=64)
def elected(k, words: nvb.Pointer[nvb.i32], *, arrivals=1, lanes=1, exchanged=False):
    """Some lanes of the first warp arrive where two words are equal, and there both warps wait."""
    done = k.mbarrier.array(1, arrivals=arrivals, name="done")
    k.mbarrier.ready()
    equal, few = words[0] == words[1], k.thread_id() < lanes
    with k.if_(few & equal if exchanged else equal & few):
        k.mbarrier.arrive(done)
    with k.if_(equal):
        k.mbarrier.wait(done, 0)


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize(
    ("arrivals", "lanes", "expected"),
    [(1, 1, []), (3, 3, []), (4, 3, ["mbarrier.arrivals"]), (2, 3, ["mbarrier.arrivals"])],
)
def test_a_few_lanes_arrive_where_data_says_so(exchanged, arrivals, lanes, expected) -> None:
    assert refusals(elected, arrivals=arrivals, lanes=lanes, exchanged=exchanged) == expected
