"""Arithmetic on tables of numbers of every width: against Python, and what LLVM's Language Reference defines."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend.builder.thread_tables import tables
from nvbackend.builder.thread_tables.table import Table
from tests.support.tables import array

WIDTHS = (1, 7, 8, 16, 31, 32, 33, 63, 64, 65, 96, 127, 128)


def with_sign(number: int, width: int) -> int:
    return number - (1 << width) if number >> width - 1 else number


def towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def of_signed(function: Callable[[int, int], int | None]) -> Callable[[int, int, int], int | None]:
    return lambda a, b, width: function(with_sign(a, width), with_sign(b, width))


def of_unsigned(function: Callable[[int, int], int | None]) -> Callable[[int, int, int], int | None]:
    return lambda a, b, _width: function(a, b)


def shifted(function: Callable[[int, int], int], *, arithmetic: bool = False) -> Callable[[int, int, int], int | None]:
    return lambda a, b, width: function(with_sign(a, width) if arithmetic else a, b) if b < width else None


def quotient(a: int, b: int, width: int) -> int | None:
    x, y = with_sign(a, width), with_sign(b, width)
    return None if y == 0 or (x == -(1 << width - 1) and y == -1) else towards_zero(x, y)


def rest(a: int, b: int, width: int) -> int | None:
    whole = quotient(a, b, width)
    return None if whole is None else with_sign(a, width) - with_sign(b, width) * whole


OPERATIONS: dict[str, Callable[[int, int, int], int | None]] = {
    **{name: of_unsigned(getattr(operator, name)) for name in ("add", "sub", "mul", "xor")},
    "and": of_unsigned(operator.and_),
    "or": of_unsigned(operator.or_),
    "shl": shifted(operator.lshift),
    "lshr": shifted(operator.rshift),
    "ashr": shifted(operator.rshift, arithmetic=True),
    "udiv": of_unsigned(lambda a, b: a // b if b else None),
    "urem": of_unsigned(lambda a, b: a % b if b else None),
    "sdiv": quotient,
    "srem": rest,
    "umin": of_unsigned(min),
    "umax": of_unsigned(max),
    "smin": of_signed(min),
    "smax": of_signed(max),
}
COMPARISONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
OPERATIONS |= {f"u{name}": of_unsigned(order) for name, order in COMPARISONS.items()}
OPERATIONS |= {f"s{name}": of_signed(order) for name, order in COMPARISONS.items()}
OPERATIONS |= {"eq": of_unsigned(operator.eq), "ne": of_unsigned(operator.ne)}


def numbers_of(width: int) -> st.SearchStrategy[int]:
    ends = [0, 1, (1 << width) - 1, 1 << width - 1, (1 << width - 1) - 1, width - 1, width]
    return st.one_of(st.sampled_from([one % (1 << width) for one in ends]), st.integers(0, (1 << width) - 1))


def table(numbers: list[int], width: int) -> Table:
    return Table((1, 1, len(numbers)), [[tables.constant(one, width).first for one in numbers]])


@pytest.mark.parametrize("width", WIDTHS)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_operations_of_every_width(width: int, data: st.DataObject) -> None:
    left, right = (data.draw(st.lists(numbers_of(width), min_size=6, max_size=6)) for _ in range(2))
    for name, function in OPERATIONS.items():
        to = 1 if name.strip("su") in COMPARISONS or name in ("eq", "ne") else width
        found, defined = tables.binary(name, table(left, width), table(right, width), width, to)
        expected = [function(a, b, width) for a, b in zip(left, right, strict=True)]
        where = [True] * 6 if defined is None else array(defined)[0, 0].astype(bool).tolist()
        assert where == [one is not None for one in expected], name
        for number, one in zip(array(found)[0, 0].tolist(), expected, strict=True):
            assert one is None or number == int(one) % (1 << to), (name, left, right)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("to", WIDTHS)
def test_casts_between_all_widths(width: int, to: int) -> None:
    numbers = [0, 1, (1 << width) - 1, 1 << width - 1, (1 << width - 1) - 1]
    for name in ("zext", "sext", "trunc"):
        if (to > width) is (name != "trunc") and to != width:
            found = tables.cast(name, table(numbers, width), width, to)
            expected = [with_sign(one, width) if name == "sext" else one for one in numbers]
            assert array(found)[0, 0].tolist() == [one % (1 << to) for one in expected]


def of_both(function: Callable[[int, int], int]) -> Callable[[int, int, int], tuple[int, int]]:
    """The result without a sign and with one, with no end to its bits."""
    return lambda a, b, width: (function(a, b), function(with_sign(a, width), with_sign(b, width)))


WRAPPING: dict[str, Callable[[int, int, int], tuple[int, int]]] = {
    **{name: of_both(getattr(operator, name)) for name in ("add", "sub", "mul")},
    "shl": lambda a, b, width: (a << b, with_sign(a, width) << b),
}
PROMISES = ["nuw", "nsw", "exact"]


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("flag", PROMISES)
def test_where_a_promise_is_kept(flag: str, width: int) -> None:
    """Of all numbers, by what LLVM's Language Reference says; what an operation does not promise, it cannot break."""
    pairs = [(a, b) for a in range(1 << width) for b in range(1 << width)]
    left, right = (table([pair[side] for pair in pairs], width) for side in (0, 1))
    exact = ("udiv", "sdiv", "lshr", "ashr")
    for name in exact if flag == "exact" else {*OPERATIONS} - {*exact}:
        kept = tables.kept(name, flag, left, right, width)
        where = (
            [True] * len(pairs)
            if kept is None
            else np.broadcast_to(array(kept), left.shape)[0, 0].astype(bool).tolist()
        )
        assert kept is None or not all(where)
        for (a, b), is_kept in zip(pairs, where, strict=True):
            result = OPERATIONS[name](a, b, width)
            if result is None:
                continue
            if flag == "exact":
                times = 1 << b if name.endswith("shr") else with_sign(b, width) if name == "sdiv" else b
                start = with_sign(a, width) if name in ("sdiv", "ashr") else a
                assert is_kept is (result * times == start), (name, a, b)
                continue
            unsigned, signed = WRAPPING[name](a, b, width) if name in WRAPPING else (0, 0)
            low, high = (0, (1 << width) - 1) if flag == "nuw" else (-(1 << width - 1), (1 << width - 1) - 1)
            assert is_kept is (low <= (unsigned if flag == "nuw" else signed) <= high), (name, a, b)
