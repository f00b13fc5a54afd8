"""Integers of PTX as the linter computes them, against Python's own; and bounds, which hold what is between them."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable

import numpy as np
import pytest

from nvbackend.lint.numbers.addresses import _COMPUTED, Bounded
from nvbackend.lint.numbers.integers import COMPUTED, computed

MEANING: dict[str, Callable[..., int]] = {
    "add.u32": lambda a, b: a + b,
    "add.s64": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "mul.lo.s64": lambda a, b: a * b,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "mul.hi.s32": lambda a, b: a * b >> 32,
    "mul.hi.u64": lambda a, b: a * b >> 64,
    "mul.hi.s64": lambda a, b: a * b >> 64,
    "mul.wide.u16": lambda a, b: a * b,
    "mul.wide.u32": lambda a, b: a * b,
    "mul.wide.s32": lambda a, b: a * b,
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "mad.hi.u32": lambda a, b, c: (a * b >> 32) + c,
    "shl.b32": lambda a, b: a << b,
    "shl.b64": lambda a, b: a << b,
    "shr.u32": lambda a, b: a >> b,
    "shr.s32": lambda a, b: a >> b,
    "shr.s64": lambda a, b: a >> b,
    "and.b32": lambda a, b: a & b,
    "or.b64": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "not.b32": lambda a: ~a,
    "neg.s32": lambda a: -a,
    "min.s32": min,
    "max.s32": max,
    "min.u32": min,
    "max.u64": max,
    "setp.lt.s32": lambda a, b: a < b,
    "setp.lo.u32": lambda a, b: a < b,
    "setp.ge.u64": lambda a, b: a >= b,
    "setp.gt.s64": lambda a, b: a > b,
    "setp.ne.b32": lambda a, b: a != b,
    "setp.le.and.s32": lambda a, b, c: (a <= b) & c,
    "setp.hi.or.u32": lambda a, b, c: (a > b) | c,
    "setp.eq.xor.u32": lambda a, b, c: (a == b) ^ c,
    "cvt.u64.u32": lambda a: a,
    "cvt.s64.s32": lambda a: a,
    "cvt.u16.u32": lambda a: a,
    "cvt.s32.s8": lambda a: a,
    "div.u32": lambda a, b: a // b,
    "rem.u32": lambda a, b: a % b,
    "bfe.u32": lambda a, at, count: a >> at & (1 << count) - 1,
    "bfe.s32": lambda a, at, count: ((a >> at & (1 << count) - 1) ^ 1 << count - 1) - (1 << count - 1),
    "bfi.b32": lambda a, b, at, count: b & ~((1 << count) - 1 << at) | (a & (1 << count) - 1) << at,
    "lop3.b32": lambda a, b, c, _: (a & b) ^ c,
    "selp.b32": lambda a, b, c: a if c else b,
    "mov.b64": lambda low, high: high << 32 | low,
}
"""PTX ISA 9.7.1, 9.7.6, 9.7.8 and 9.7.9, on whole numbers: a result is their low bits."""
SECOND_IS_ONE = ("div", "rem")
"""The divisor is one number of all threads."""
TABLE_OF_A_AND_B_XOR_C = 0x6A


def _arity(meaning: Callable[..., int]) -> int:
    return 2 if meaning in (min, max) else len(inspect.signature(meaning).parameters)


def _random(random_: random.Random, bits: int) -> int:
    return random_.choice((0, 1, (1 << bits) - 1, 1 << bits - 1, random_.getrandbits(bits), random_.getrandbits(6)))


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> bits - 1 & 1 else number


def _sources(random_: random.Random, parts: list[str], of_threads: int) -> list[list[int]]:
    """The operands of each thread."""
    bits = 32 if parts[0] == "mov" else int(parts[-1][1:])
    found = [[_random(random_, bits) for _ in range(4)] for _ in range(of_threads)]
    at, count = random_.randrange(32), random_.randrange(1, 33)
    for each in found:
        head = parts[0]
        if head in ("shl", "shr"):
            each[1] = at + (random_.choice((0, 0, 40)) if of_threads == 1 else 0)
        elif head in SECOND_IS_ONE:
            each[1] = 1 + at
        elif head == "bfe":
            each[1:3] = min(at, 32 - count), count
        elif head == "bfi":
            each[2:] = min(at, 32 - count), count
        elif head == "selp" or (head == "setp" and len(parts) == 4):
            each[2] &= 1
        elif head == "lop3":
            each[3] = TABLE_OF_A_AND_B_XOR_C
    return found


def _expected(text: str, sources: list[int]) -> int:
    parts = text.split(".")
    kind, bits = parts[-1][0], int(parts[-1][1:])
    meaning = MEANING[text]
    given = sources[: _arity(meaning)]
    if kind == "s" and parts[0] not in ("bfe", "bfi"):
        numbers = [_signed(each, bits) for each in given]
        given = [*numbers[:1], *given[1:]] if parts[0] == "shr" else [*numbers[:2], *given[2:]]
    wide = (
        1 if parts[0] == "setp" else 2 * bits if "wide" in parts else int(parts[1][1:]) if parts[0] == "cvt" else bits
    )
    return int(meaning(*given)) & (1 << wide) - 1


@pytest.mark.parametrize("text", MEANING)
def test_integers_are_those_of_python(text: str) -> None:
    random_, parts = random.Random(text), text.split(".")
    count = _arity(MEANING[text])
    for threads in (1, 1, 1, 1, 8, 8, 8):
        sources = _sources(random_, parts, threads)
        expected = [_expected(text, each) for each in sources]
        columns = [[each[at] for each in sources] for at in range(count)]
        given = [column[0] if len(set(column)) == 1 else np.array(column, np.uint64) for column in columns]
        answer = computed(parts, given)
        assert answer is not None
        assert np.broadcast_to(np.array(answer, np.uint64), threads).tolist() == expected, sources


def test_each_instruction_that_is_computed_has_a_meaning_here() -> None:
    assert {text.split(".")[0] for text in MEANING} == COMPUTED


@pytest.mark.parametrize("text", ["add.cc.u32", "add.sat.s32", "sub.cc.u32", "mul.hi.u16", "div.s32", "add.f32"])
def test_what_is_not_known_is_no_number(text: str) -> None:
    assert computed(text.split("."), [7, 3]) is None


BOUNDED: dict[str, Callable[..., int]] = {
    "add.s32": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "shl.b32": lambda a, b: a << b,
    "shr.u32": lambda a, b: a >> b,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "bfe.u32": lambda a, at, count: a >> at & (1 << count) - 1,
    "mov.b32": lambda a: a,
    "cvt.s64.s32": lambda a: a,
    "cvta.u64": lambda a: a,
}
KNOWS_ONE_NUMBER = {"mul": 2, "mad": 2, "shl": 2, "shr": 2, "and": 2, "bfe": 2}
"""The operand, counted from 1, from which on operands are single numbers here."""


def _range(random_: random.Random) -> tuple[int, int]:
    low = random_.randrange(200)
    return low, low + random_.choice((0, 1, 7, 100))


@pytest.mark.parametrize("text", BOUNDED)
def test_bounds_hold_whatever_lies_between_those_of_the_operands(text: str) -> None:
    random_, parts = random.Random(text), tuple(text.split("."))
    head, meaning = parts[0], BOUNDED[text]
    count = _arity(meaning)
    for _ in range(60):
        ranges = [_range(random_) for _ in range(count)]
        for at in range(KNOWS_ONE_NUMBER.get(head, 9) - 1, count):
            number = random_.randrange(1, 8)
            ranges[at] = number, number
        if head == "mad":
            ranges[2] = _range(random_)
        bounds = _COMPUTED[head](parts, [Bounded("", low, high) for low, high in ranges])
        found = {meaning(*(random_.randint(*each) for each in ranges)) for _ in range(30)}
        corners = {meaning(*(each[random_.randrange(2)] for each in ranges)) for _ in range(30)}
        assert bounds.low is not None
        assert bounds.high is not None
        assert bounds.low <= min(found | corners), (ranges, bounds)
        assert max(found | corners) <= bounds.high, (ranges, bounds)
        if all(low == high for low, high in ranges) and head not in ("and", "or", "xor", "bfe"):
            assert {bounds.low, bounds.high} == corners


def test_each_instruction_with_bounds_is_tried() -> None:
    assert {text.split(".")[0] for text in BOUNDED} == set(_COMPUTED)
