"""Whom a barrier keeps together: all, those that name it by a number, and nobody where that is not known."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from nvbackend.intrinsics.sync import barriers
from nvbackend.isel.flow.dataflow import sites_of
from nvbackend.isel.machine.function import Crew, MachineFunction, MachineInstr, RunTimeValues
from nvbackend.isel.protocols.shared.syncs import Syncs
from nvbackend.isel.target.target import Target

THREADS = 128
EVERYBODY = (1 << THREADS) - 1
TOKENS = {
    "warp": [thread // 32 for thread in range(THREADS)],
    "pair": [1 + thread // 64 for thread in range(THREADS)],
    "odd": [7 + thread % 2 for thread in range(THREADS)],
    "three": [3] * THREADS,
}


class Values(RunTimeValues):
    """What is known of the values, by the names above."""

    def numbers(self, name: str) -> Sequence[int] | None:
        return TOKENS.get(name)


def kept(crew: Crew | None, **operands: str) -> tuple[int, ...]:
    function = MachineFunction("f", Target.parse("sm_90a"), attributes={"threads": THREADS}, values=Values())
    rows = [row for row in barriers.rows() if row.semantics.barrier is not None and row.semantics.barrier.waits]
    row = next(row for row in rows if {one.name for one in row.inputs} == operands.keys())
    block = function.block("entry")
    block.crew, block.instructions = crew, [MachineInstr(row.opcode, row, operands=operands)]
    sites = sites_of(function)
    return tuple(Syncs(function, sites).groups(sites["entry"][0]))


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("count", [32, 64, 128])
def test_threads_that_name_one_barrier_are_kept_together(name: str, count: int) -> None:
    chance = random.Random(f"{name}{count}")
    for bits in (EVERYBODY, EVERYBODY >> 32, (1 << 32) - 1, chance.getrandbits(THREADS)):
        by_number: dict[int, int] = {}
        for thread, number in enumerate(TOKENS[name]):
            by_number[number] = by_number.get(number, 0) + ((bits >> thread & 1) << thread)
        expected = {group for group in by_number.values() if group.bit_count() == count}
        assert {*kept(Crew(bits, False, "entry"), id=name, threads=str(count))} == expected
        assert kept(Crew(bits, False, "entry"), id="3", threads=str(count)) == (bits,) * (bits.bit_count() == count)
        assert kept(Crew(bits, True, "entry"), id="3", threads=str(count)) == ()


def test_nobody_is_kept_by_a_barrier_that_is_not_known() -> None:
    everybody = Crew(EVERYBODY, False, "entry")
    assert kept(everybody, id="unknown", threads="128") == ()
    assert kept(everybody, id="3", threads="count") == ()
    assert kept(None, id="3", threads="128") == ()
    assert kept(None, id="3") == (EVERYBODY,)
    assert kept(None, id="unknown") == ()
