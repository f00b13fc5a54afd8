"""Results of values that are known in some threads alone: known exactly where these decide them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from llvmlite import ir

from nvbackend.builder.thread_tables.table import Table
from nvbackend.builder.thread_tables.tables import Cta
from nvbackend.builder.value_tracking.calls import shuffled
from nvbackend.builder.value_tracking.known import Known
from nvbackend.builder.value_tracking.results import result_of
from nvbackend.intrinsics.row.semantics import Scope
from tests.builder.value_tracking.test_table_arithmetic import OPERATIONS, with_sign
from tests.support.tables import array, table

THREADS, RANKS, WIDTH = 64, 2, 3
WHOLE = 1 << WIDTH
Number = int | None
WRAPS, EXACT = ("add", "sub", "mul", "shl"), ("udiv", "sdiv", "lshr", "ashr")
COMPARED = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
WRAPPING = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "shl": int.__lshift__}


def drawn(chance: random.Random, numbers: range, share: float) -> tuple[Known, list[list[Number]]]:
    """A value that is known in about this `share` of the threads, by rank: everywhere, or nowhere, now and then."""
    ranks = chance.choice((1, RANKS))
    rows = [[chance.choice(numbers) for _ in range(THREADS)] for _ in range(ranks)]
    where = [[chance.random() < share for _ in range(THREADS)] for _ in range(ranks)]
    certain = chance.choice([*Scope])
    if not any(map(any, where)):
        return Known(certain=certain), [[None] * THREADS] * RANKS
    mask = np.array([where])
    expected = [
        [one if known else None for one, known in zip(*pair, strict=True)] for pair in zip(rows, where, strict=True)
    ]
    return Known(table(np.array([rows], np.uint64)), None if mask.all() else table(mask), certain=certain), expected * (
        RANKS // ranks
    )


def told(known: Known) -> list[list[Number]]:
    """What is known in each thread, by rank."""
    if known.numbers is None:
        return [[None] * THREADS] * RANKS
    shape = (1, RANKS, THREADS)
    where = np.broadcast_to(True if known.where is None else array(known.where), shape)[0]
    assert known.where is None or not known.where.all()
    numbers = np.broadcast_to(array(known.numbers), shape)[0]
    return [
        [int(one) if is_known else None for one, is_known in zip(*rows, strict=True)]
        for rows in zip(numbers, where, strict=True)
    ]


def body() -> tuple[ir.IRBuilder, list[ir.Argument]]:
    kind = ir.IntType(WIDTH)
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(1), kind, kind]), "f")
    return ir.IRBuilder(function.append_basic_block()), list(function.args)


def decided(operation: str, flags: tuple[str, ...], a: Number, b: Number) -> Number:
    """By LLVM's Language Reference, where a promise that is not kept gives poison."""
    decider = {"and": 0, "mul": 0, "or": WHOLE - 1}.get(operation)
    if a is None or b is None:
        return decider if decider is not None and decider in (a, b) else None
    result = OPERATIONS[operation](a, b, WIDTH)
    if result is None:
        return None
    if operation in WRAPPING:
        x, y = with_sign(a, WIDTH), b if operation == "shl" else with_sign(b, WIDTH)
        if "nuw" in flags and not 0 <= WRAPPING[operation](a, b) < WHOLE:
            return None
        if "nsw" in flags and not -(WHOLE // 2) <= WRAPPING[operation](x, y) < WHOLE // 2:
            return None
    if "exact" in flags:
        start = with_sign(a, WIDTH) if operation in ("sdiv", "ashr") else a
        times = 1 << b if operation.endswith("shr") else with_sign(b, WIDTH) if operation == "sdiv" else b
        if result * times != start:
            return None
    return int(result) % WHOLE


@pytest.mark.parametrize("operation", [*WRAPS, *EXACT, "urem", "srem", "and", "or", "xor"])
def test_an_operation_is_known_where_its_operands_decide_it(operation: str) -> None:
    chance = random.Random(operation)
    builder, (_, left, right) = body()
    promises = (
        [("nsw",), ("nuw",), ("nsw", "nuw")] if operation in WRAPS else [("exact",)] if operation in EXACT else []
    )
    emit = getattr(builder, operation + "_" * (operation in ("and", "or")))
    for flags in [(), *promises]:
        for shares in ((1, 1), (0.5, 0.5), (1, 0.5), (0.5, 1), (0, 0.5), (0.5, 0), (0, 0)):
            (x, a), (y, b) = (drawn(chance, range(WHOLE), share) for share in shares)
            known = result_of(emit(left, right, flags=flags), [x, y], Cta(THREADS, RANKS))
            expected = [
                [decided(operation, flags, *pair) for pair in zip(*rows, strict=True)]
                for rows in zip(a, b, strict=True)
            ]
            assert told(known) == expected, (operation, flags, shares)
            if not known.is_whole:
                assert known.certain is min(x.certain, y.certain)


@pytest.mark.parametrize("operation", COMPARED)
def test_a_comparison_is_known_where_both_sides_are(operation: str) -> None:
    chance = random.Random(operation)
    builder, (_, left, right) = body()
    real = ir.FloatType()
    for shares in ((1, 1), (0.5, 0.5), (1, 0.5), (0.5, 1), (0, 0.5), (0.5, 0), (0, 0)):
        (x, a), (y, b) = (drawn(chance, range(WHOLE), share) for share in shares)
        name = COMPARED[operation]
        for sign, compare in (("s", builder.icmp_signed), ("u", builder.icmp_unsigned)):
            spelling = name if name in ("eq", "ne") else sign + name
            expected = [
                [decided(spelling, (), *pair) for pair in zip(*rows, strict=True)] for rows in zip(a, b, strict=True)
            ]
            cta = Cta(THREADS, RANKS)
            assert told(result_of(compare(operation, left, right), [x, y], cta)) == expected
            floats = [getattr(builder, f"{sign}itofp")(side, real) for side in (left, right)]
            converted = [result_of(value, [known], cta) for value, known in zip(floats, (x, y), strict=True)]
            for of_floats in (builder.fcmp_ordered, builder.fcmp_unordered):
                assert told(result_of(of_floats(operation, *floats), converted, cta)) == expected


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_a_number_in_other_bits_is_known_where_it_is(share: float) -> None:
    builder, (_, value, _) = body()
    known, numbers = drawn(random.Random(share), range(WHOLE), share)
    wide, narrow = ir.IntType(2 * WIDTH), ir.IntType(WIDTH - 1)
    for cast, change in {
        builder.zext(value, wide): lambda number: number,
        builder.sext(value, wide): lambda number: with_sign(number, WIDTH) % (WHOLE * WHOLE),
        builder.trunc(value, narrow): lambda number: number % (WHOLE // 2),
    }.items():
        expected = [[None if one is None else change(one) for one in row] for row in numbers]
        assert told(result_of(cast, [known], Cta(THREADS, RANKS))) == expected


@pytest.mark.parametrize("sides", [(1, 1), (0.5, 1), (1, 0.5), (0.6, 0.6), (0, 0.5), (0.5, 0), (0, 0), (0, 1)], ids=str)
def test_a_choice_is_known_where_its_side_is_or_both_agree(sides: tuple[float, float]) -> None:
    chance = random.Random(str(sides))
    builder, (condition, left, right) = body()
    for share in (0, 0.5, 1):
        (c, which), (x, a), (y, b) = (
            drawn(chance, range(size), one) for size, one in zip((2, 2, 2), (share, *sides), strict=True)
        )
        known = result_of(builder.select(condition, left, right), [c, x, y], Cta(THREADS, RANKS))
        expected = [
            [
                (yes if yes == no else None) if holds is None else yes if holds else no
                for holds, yes, no in zip(*rows, strict=True)
            ]
            for rows in zip(which, a, b, strict=True)
        ]
        assert told(known) == expected


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_a_shuffle_is_known_where_its_operands_are_and_the_lane_that_it_reads(mode: str) -> None:
    """By the pseudocode of PTX ISA 9.7.9 (shfl.sync); the mask of the segments is in bits 8 to 12 of the clamp."""
    chance = random.Random(mode)
    everybody = (1 << 32) - 1
    masks = [everybody, everybody & ~0x11, 0xFFFF, 0xFFFF0000]
    clamps = [0x1F, 0x0F, 0x07, 0x181F, 0x1C1F, 0x1800, 0x1C00]
    for shares in shares_of_operands():
        operands = []
        for numbers, share in zip((masks, range(99), range(40), clamps), shares, strict=True):
            places, expected = drawn(chance, range(len(numbers)), share)
            chosen = None if places.numbers is None else places.numbers.map(numbers.__getitem__)
            operands.append(
                (
                    Known(chosen, places.where),
                    [[None if one is None else numbers[one] for one in row] for row in expected],
                )
            )
        found, within = shuffled(Cta(THREADS, RANKS), mode, *(known for known, _ in operands))
        wanted = [
            [exchanged(mode, rank, thread, *(rows for _, rows in operands)) for thread in range(THREADS)]
            for rank in range(RANKS)
        ]
        assert told(of_result(found)) == [[one[0] for one in row] for row in wanted]
        assert told(of_result(within)) == [[one[1] for one in row] for row in wanted]


def shares_of_operands() -> list[tuple[float, float, float, float]]:
    """All known, and one or all of the operands in some threads, or in none."""
    shares = [(1.0, 1.0, 1.0, 1.0), (0.8, 0.8, 0.8, 0.8)]
    for place in range(4):
        shares += [tuple(share if one == place else 1.0 for one in range(4)) for share in (0, 0.5)]
    return shares


def of_result(found: tuple[Table, Table] | None) -> Known:
    return Known() if found is None else Known(found[0], None if found[1].all() else found[1])


def exchanged(
    mode: str, rank: int, thread: int, members: list[list[Number]], value: list[list[Number]], *rest: list[list[Number]]
) -> tuple[Number, Number]:
    """What a thread gets, and whether the lane is one of its segment."""
    warp, own = thread - thread % 32, thread % 32
    mask, by, clamp = members[rank][thread], *(rows[rank][thread] for rows in rest)
    if mask is None or by is None or clamp is None or not mask >> own & 1:
        return None, None
    segment, bound, by = clamp >> 8 & 31, clamp & 31, by & 31
    most, least = own & segment | bound & ~segment, own & segment
    source = {"up": own - by, "down": own + by, "bfly": own ^ by, "idx": least | by & ~segment & 31}[mode]
    inside = source >= most if mode == "up" else source <= most
    source = source if inside else own
    return value[rank][warp + source] if mask >> source & 1 else None, int(inside)


@pytest.mark.parametrize("known", range(3))
@pytest.mark.parametrize("index", range(2))
def test_a_part_of_which_something_or_nothing_is_known(index: int, known: int) -> None:
    kind = ir.LiteralStructType([ir.IntType(WIDTH)] * 2)
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [kind]), "f")
    part = ir.IRBuilder(function.append_basic_block()).extract_value(function.args[0], index)
    parts = tuple(Known(Table.of(number)) for number in (5, 3)[:known])
    found = result_of(part, [Known(certain=Scope.WARP, apparent=Scope.CTA, parts=parts)], Cta(THREADS, RANKS))
    if index < known:
        assert found is parts[index]
    else:
        assert (found.numbers, found.certain, found.apparent) == (None, Scope.WARP, Scope.CTA)
