"""The dry run's arithmetic against Python's: on numbers, on arrays with a number a lane, on unknown values."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from typing import Any

import pytest
from llvmlite import ir

from nvbackend.dry_run.program.operations import is_copy
from nvbackend.dry_run.values import arithmetic
from nvbackend.dry_run.values.unknown import UNKNOWN, Expression, leaf
from nvbackend.dry_run.values.vectors import Lanes


def _cut(number: int, divisor: int) -> int:
    """The quotient without its fraction."""
    return abs(number) // abs(divisor) * (1 if (number < 0) == (divisor < 0) else -1)


MEANING: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "udiv": lambda a, b: a // b,
    "urem": lambda a, b: a % b,
    "sdiv": _cut,
    "srem": lambda a, b: a - b * _cut(a, b),
    "shl": lambda a, b: a << b,
    "lshr": lambda a, b: a >> b,
    "ashr": lambda a, b: a >> b,
    "umin": min,
    "umax": max,
    "smin": min,
    "smax": max,
}
"""LLVM's language reference, on whole numbers: a result is their low bits."""
WITH_SIGN = ("sdiv", "srem", "ashr", "smin", "smax")
COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    **{f"{sign}lt": lambda a, b: a < b for sign in "us"},
    **{f"{sign}le": lambda a, b: a <= b for sign in "us"},
    **{f"{sign}gt": lambda a, b: a > b for sign in "us"},
    **{f"{sign}ge": lambda a, b: a >= b for sign in "us"},
}


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> bits - 1 else number


def _operands(random_: random.Random, name: str, bits: int) -> list[tuple[Any, Any]]:
    """Numbers and those of lanes, in each combination."""

    def left() -> int:
        return random_.choice((0, 1, (1 << bits) - 1, 1 << bits - 1, random_.getrandbits(bits)))

    def right() -> int:
        if name in ("shl", "lshr", "ashr"):
            return random_.randrange(bits)
        return left() or 1

    lefts, rights = (Lanes([one() for _ in range(32)]) for one in (left, right))
    return [(left(), right()), (lefts, right()), (left(), rights), (lefts, rights)]


def _lanes(value: Any) -> list[int]:
    return value.numbers if isinstance(value, Lanes) else [value] * 32


def _done(operation: arithmetic.Operation, *values: Any) -> Any:
    registers = [None, *values]
    operation(registers)
    return registers[0]


def test_each_operation_has_a_meaning_here() -> None:
    assert set(MEANING) == set(arithmetic.BINARY)


@pytest.mark.parametrize("bits", [8, 32, 64])
@pytest.mark.parametrize("name", MEANING)
def test_numbers_and_those_of_lanes_are_those_of_python(name: str, bits: int) -> None:
    random_ = random.Random(f"{name} {bits}")
    for _ in range(4):
        for x, y in _operands(random_, name, bits):
            pairs = zip(_lanes(x), _lanes(y), strict=True)
            if name in WITH_SIGN:
                pairs = ((_signed(a, bits), b if name == "ashr" else _signed(b, bits)) for a, b in pairs)
            expected = [MEANING[name](a, b) & (1 << bits) - 1 for a, b in pairs]
            assert _lanes(_done(arithmetic.BINARY[name](0, 1, 2, bits), x, y)) == expected, (x, y)


@pytest.mark.parametrize("predicate", COMPARED)
def test_comparisons_are_those_of_python(predicate: str) -> None:
    random_ = random.Random(predicate)
    for x, y in [pair for _ in range(4) for pair in _operands(random_, "", 32)]:
        pairs = zip(_lanes(x), _lanes(y), strict=True)
        if predicate[0] == "s":
            pairs = ((_signed(a, 32), _signed(b, 32)) for a, b in pairs)
        expected = [int(COMPARED[predicate](a, b)) for a, b in pairs]
        assert _lanes(_done(arithmetic.compare(0, 1, 2, predicate, 32), x, y)) == expected, (x, y)


@pytest.mark.parametrize("name", ["udiv", "urem", "sdiv", "srem", "shl", "lshr", "ashr"])
def test_what_llvm_leaves_undefined_is_unknown(name: str) -> None:
    undefined = 32 if "sh" in name else 0
    lanes, wrong = Lanes([*range(32)]), Lanes([1] * 31 + [undefined])
    for x, y in [(5, undefined), (lanes, undefined), (5, wrong), (lanes, wrong)]:
        assert _done(arithmetic.BINARY[name](0, 1, 2, 32), x, y) is UNKNOWN


@pytest.mark.parametrize("name", MEANING)
def test_an_unknown_result_is_named_by_the_operation_and_its_operands(name: str) -> None:
    table: dict[Hashable, Expression] = {}
    x, y, lanes = leaf(table, "x"), leaf(table, "y"), Lanes([*range(32)])
    run = arithmetic.BINARY[name](0, 1, 2, 32)
    given = [(x, y), (y, x), (x, 3), (x, 4), (x, lanes)]
    # What wraps is the low bits of the sum, which have a name of their own.
    keys = [found.key[1].key if found.key[0] == "and" and name != "and" else found.key for found in
            (_done(run, *pair) for pair in given)]  # fmt: skip
    said = name if name in ("add", "sub", "mul", "and", "or", "xor") else f"{name} i32"
    assert keys[:4] == [(said, *pair) for pair in given[:4]]
    assert len(set(keys)) == len(keys)
    assert _done(run, x, y) is _done(run, x, y)
    assert _done(run, UNKNOWN, y) is UNKNOWN
    assert _done(run, x, UNKNOWN) is UNKNOWN


@pytest.mark.parametrize(("cast", "before", "after", "keeps"), [
    ("zext", 1, 32, False), ("zext", 2, 32, True), ("zext", 16, 64, True), ("sext", 16, 32, False),
    ("trunc", 64, 32, False), ("bitcast", 32, 32, True),
])  # fmt: skip
def test_a_copy_keeps_the_bits_of_more_than_a_condition(cast: str, before: int, after: int, keeps: bool) -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(before)]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    value = ir.CastInstr(builder.block, cast, function.args[0], ir.IntType(after), "")
    assert is_copy(value) is keeps


def test_sums_with_one_unknown_value_are_apart_by_a_number() -> None:
    """So the rounds of a loop that begins at a number in memory are counted from there."""
    table: dict[Any, Expression] = {}
    value, other = (leaf(table, "load i32", place) for place in (0, 4))

    def of(name: str, left: Any, right: Any) -> Any:
        registers = [left, right, None]
        arithmetic.BINARY[name](2, 0, 1, 32)(registers)
        return registers[2]

    later = of("add", of("add", value, 3), 4)
    assert later is of("add", 7, value) and of("sub", later, 7) is value
    assert of("sub", later, value) == 7 and of("sub", value, later) == 2**32 - 7
    assert of("sub", of("sub", value, 2), later) == 2**32 - 9
    assert of("add", of("sub", value, 2), 2) is value
    assert isinstance(of("sub", later, other), Expression)
