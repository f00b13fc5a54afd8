"""What the lanes of a warp get from all its members: against Python, for every number that an unknown one may be."""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest

from nvbackend import f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.thread_tables.tables import Cta, constant
from nvbackend.builder.value_tracking.calls import COLLECTIONS, collected
from nvbackend.builder.value_tracking.known import Known
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.signature import Parameter, Scalar
from tests.support.tables import array, table

THREADS = 64
ALL = (1 << 32) - 1
ANY_NUMBER = (0, 1, 1 << 31, ALL)
"""What an unknown number may be."""
Lanes = Sequence[int]


def bits(lanes: list[bool]) -> int:
    return sum(1 << lane for lane, one in enumerate(lanes) if one)


def signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


def of_used(function: Callable[[list[int]], int]) -> Callable[[Lanes, int, int], tuple[int, ...]]:
    """A function of the members' numbers alone."""
    return lambda numbers, mask, _own: (function([one for lane, one in enumerate(numbers) if mask >> lane & 1]) & ALL,)


def all_equal(numbers: Lanes, mask: int, _own: int) -> tuple[int, int]:
    equal = len({one for lane, one in enumerate(numbers) if mask >> lane & 1}) == 1
    return mask * equal, int(equal)


EXPECTED: dict[str, Callable[[Lanes, int, int], tuple[int, ...]]] = {
    "vote any": of_used(lambda used: int(any(used))),
    "vote all": of_used(lambda used: int(all(used))),
    "vote uni": of_used(lambda used: int(len({one != 0 for one in used}) == 1)),
    "vote ballot": lambda numbers, mask, _: (bits([one != 0 for one in numbers]) & mask,),
    "match any": lambda numbers, mask, own: (bits([one == numbers[own] for one in numbers]) & mask,),
    "match all": all_equal,
    "add": of_used(sum),
    "and": of_used(lambda used: reduce(operator.and_, used)),
    "or": of_used(lambda used: reduce(operator.or_, used)),
    "xor": of_used(lambda used: reduce(operator.xor, used)),
    "min u32": of_used(min),
    "max u32": of_used(max),
    "min s32": of_used(lambda used: min(map(signed, used))),
    "max s32": of_used(lambda used: max(map(signed, used))),
}
DECIDED = ("vote any", "vote all", "vote uni")
"""What some of the members may decide without the others."""


def test_every_collection_is_expected() -> None:
    assert {*EXPECTED} == {*COLLECTIONS}


def test_where_numbers_are_known_may_differ_by_cta_where_the_numbers_do_not() -> None:
    numbers = table(np.full((1, 1, THREADS), 7, np.uint64))
    where = table(np.array([True, False]).reshape(1, 2, 1))
    cta = Cta(THREADS, 2, (THREADS, 1, 1), (2, 1, 1))
    ((result, known),) = collected(cta, "max u32", Known(constant(ALL, 32)), Known(numbers, where))
    assert np.broadcast_to(array(known), (1, 2, THREADS))[0].all(-1).astype(bool).tolist() == [True, False]
    assert (np.broadcast_to(array(result), (1, 2, THREADS))[0, 0] == 7).all()


@pytest.mark.parametrize("operation", EXPECTED)
def test_a_result_is_known_where_it_is_one_for_all_that_the_unknown_may_be(operation: str) -> None:
    chance = random.Random(operation)
    for _ in range(20):
        mask = chance.choice([ALL, ALL, 0xFFFF, chance.getrandbits(32) | 3, 1 << chance.randrange(32)])
        pool = chance.choice([(0,), (1,), (1, 1, 1, 1, 1, 0), (0, 0, 0, 0, 1), ANY_NUMBER])
        numbers = [chance.choice(pool) for _ in range(THREADS)]
        unknown = set(chance.sample(range(THREADS), chance.choice([0, 1, 2, 3])))
        where = table(np.array([[[thread not in unknown for thread in range(THREADS)]]]))
        value = Known(table(np.array([[numbers]], np.uint64)), where if unknown else None)
        every = collected(Cta(THREADS, 1, (THREADS, 1, 1)), operation, Known(constant(mask, 32)), value)
        found = [None if one is None else tuple(map(array, one)) for one in every]
        for own in range(THREADS):
            first, lane = own - own % 32, own % 32
            open_ = [one for one in range(first, first + 32) if one in unknown and mask >> one - first & 1]
            results = {
                EXPECTED[operation](
                    [dict(zip(open_, ways, strict=True)).get(first + one, numbers[first + one]) for one in range(32)],
                    mask,
                    lane,
                )
                for ways in itertools.product((0, 1) if operation in DECIDED else ANY_NUMBER, repeat=len(open_))
                if mask >> lane & 1
            }
            decides = operation in DECIDED and mask.bit_count() > 1
            is_known = mask >> lane & 1 == 1 and (len(results) == 1 if decides else not open_)
            for number, one in enumerate(found):
                assert one is not None
                known = np.broadcast_to(one[1], (1, 1, THREADS))[0, 0, own]
                assert bool(known) is is_known, (operation, own)
                assert not known or {result[number] for result in results} == {int(one[0][0, 0, own])}


@pytest.mark.parametrize("operation", ["min", "max"])
def test_what_is_not_computed_is_one_for_a_warp(operation: str) -> None:
    """Of floats no numbers are known: whoever takes part has the result, and other warps have another one."""
    k = KernelBuilder("floats", "sm_100a", threads=128, parameters=[Parameter("n", Scalar(f32))])
    own = k.core.execution.known(k.warp.reduce(operation, k.thread_id().to(f32)).ir)
    assert (own.certain, own.apparent) == (Scope.WARP, Scope.WARP)
    same = k.core.execution.known(k.warp.reduce(operation, k.arguments[0]).ir)
    assert (same.certain, same.apparent) == (Scope.GRID, Scope.GRID)


TAKEN: dict[str, tuple[Callable[[Any, Any, Any], Any], Scope]] = {
    **{mode: (lambda k, some, _, mode=mode: k.warp.vote(mode, some), Scope.WARP) for mode in ("any", "all", "uni")},
    "ballot": (lambda k, some, _: k.warp.ballot(some), Scope.WARP),
    **{
        mode: (lambda k, _, number, mode=mode: k.warp.reduce(mode, number), Scope.WARP)
        for mode in ("add", "min", "max", "and", "or", "xor")
    },
    "match any": (lambda k, _, number: k.warp.match("any", number), Scope.THREAD),
    "shuffle idx": (lambda k, _, number: k.warp.shuffle(number, "idx", 3), Scope.WARP),
    **{
        mode: (lambda k, _, number, mode=mode: k.warp.shuffle(number, mode, 1), Scope.THREAD)
        for mode in ("up", "down", "bfly")
    },
}
"""What a warp does with a predicate or a number, and the scope over which its results do not differ."""


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("known", ["none", "of the first warp"])
def test_what_is_known_of_one_warp_is_not_taken_for_all(name: str, known: str) -> None:
    """The first warp has a number, and the second one that depends on data and on the thread."""
    k = KernelBuilder("some", "sm_90a", threads=64, parameters=[Parameter("n", Scalar(i32))])
    thread, data = k.thread_id(), k.arguments[0]
    some, number = data > thread, data.to(u32) + thread.to(u32)
    if known != "none":
        some, number = (thread < 32) | some, k.select(thread < 32, k.const(5, u32), number)
    function, scope = TAKEN[name]
    found = k.core.execution.known(function(k, some, number).ir)
    assert (found.certain, found.apparent) == (scope, scope)
    assert found.is_whole is False


@pytest.mark.parametrize("operation", EXPECTED)
def test_a_call_gives_what_its_members_have(operation: str) -> None:
    k = KernelBuilder("all", "sm_100a", threads=THREADS)
    thread = k.thread_id()
    number = thread * 7 % 5
    calls: dict[str, Callable[[], Any]] = {
        **{f"vote {mode}": lambda mode=mode: k.warp.vote(mode, number == 2) for mode in ("any", "all", "uni")},
        "vote ballot": lambda: k.warp.ballot(number == 2),
        "match any": lambda: k.warp.match("any", number),
        "match all": lambda: k.warp.match("all", number, equal=True),
    }
    name, _, sign = operation.partition(" ")
    signed_number = number.to(u32) if sign == "u32" else number - 2
    found = calls.get(operation, lambda: k.warp.reduce(name, signed_number))()
    taken = [own * 7 % 5 - (0 if sign in ("u32", "any", "all") else 2) & ALL for own in range(THREADS)]
    if name == "vote":
        taken = [int(own * 7 % 5 == 2) for own in range(THREADS)]
    for number_of, one in enumerate(found if isinstance(found, tuple) else (found,)):
        known = k.core.execution.known(one.ir)
        assert known.is_whole
        numbers = np.broadcast_to(array(known.numbers), (1, 1, THREADS))[0, 0].tolist()
        warps = [taken[:32], taken[32:]]
        assert numbers == [EXPECTED[operation](lanes, ALL, own)[number_of] for lanes in warps for own in range(32)]
