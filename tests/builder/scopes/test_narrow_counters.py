"""k.range over types of 8 and 16 bits, up to their ends: the rounds are those of Python's range."""

import itertools

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, i32, u8, u32
from nvbackend.intrinsics.row.types import ElementType, s8, s16, u16

MOST = 40
"""Rounds after which a loop is left: one that wraps would not end."""


def ends(element: ElementType) -> list[tuple[int, int, int]]:
    """Start, stop and step near both ends of a type, with 35 rounds at most."""
    low = -(1 << element.bits - 1) if element.is_signed else 0
    high = low + (1 << element.bits) - 1
    near = [low, low + 1, low + 9, high - 30, high - 5, high - 1, high]
    cases = itertools.product(near, near, [1, 2, 3, 7, 100, 127])
    return [case for case in cases if len(range(*case)) <= 35]


@pytest.mark.parametrize("element", [u8, s8, u16, s16], ids=str)
@pytest.mark.parametrize("known", [None, 3])
def test_a_narrow_counter_ends_at_the_end_of_its_type(element: ElementType, known: int | None) -> None:
    """`known` is a step of the build; the others are data. A thread writes how many rounds it ran, and their sum."""
    cases = [case for case in ends(element) if known in (None, case[2])]

    @nvb.kernel("sm_80", threads=32)
    def counted(k, bounds: Pointer(element), out: Pointer(i32), count: u32):
        place = (k.block_id() * 32 + k.thread_id()).to(u32)
        k.return_if(place >= count)
        rounds, total = k.var(0, i32), k.var(0, i32)
        start, stop, step = (bounds[place * 3 + index] for index in range(3))
        with k.range(start, stop, step if known is None else known) as number:
            k.break_if(rounds >= MOST)
            rounds += 1
            total += number.to(i32)
        out[place * 2], out[place * 2 + 1] = rounds, total

    given = np.array(cases, dtype=element.storage)
    out = np.full((len(cases), 2), -1, np.int32)
    compiled = counted.compile(cache=nvb.Cache.disabled(), assemble=False)
    nvb.runtime.load(compiled, device="simulator").launch(-(-len(cases) // 32), given, out, len(cases))
    assert out.tolist() == [[len(range(*case)), sum(range(*case))] for case in cases]
