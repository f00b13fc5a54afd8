"""Accesses at every place around the ends of an allocation, of each size and use: by a formula over their bytes."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.diagnostics import Location
from nvbackend.intrinsics.row.semantics import Completion, Scope, Semantics
from nvbackend.isel.machine.function import (
    Crew,
    MachineFunction,
    MachineInstr,
    MemoryObject,
    MemoryTouch,
    MemoryUse,
    RunTimeValues,
)
from nvbackend.isel.protocols.shared.bounds import check_local_arrays, check_shared_bounds
from nvbackend.isel.target.target import Target

SHARED, LOCAL, OTHER = (
    MemoryObject(number, space, space, 48, 4) for number, space in enumerate(("shared", "local", "global"))
)
DOES = {
    MemoryUse.READ: "reads",
    MemoryUse.WRITE: "writes",
    MemoryUse.ASYNC_READ: "reads",
    MemoryUse.ASYNC_WRITE: "writes",
}
MULTIPLIES = Semantics(issues=Completion.MMA_GROUP, multiplies=True)
THREADS = 32
STEPS = {"up": [4 * thread for thread in range(THREADS)], "one": [0] * 31 + [12], "back": [-4] + [0] * 31}


class Values(RunTimeValues):
    """A few numbers of each thread."""

    def numbers(self, name: str) -> list[int] | None:
        return STEPS.get(name)

    def counted(self, name: str) -> None:
        return None

    def is_same(self, name: str) -> bool:
        return False

    def scope(self, name: str) -> Scope:
        return Scope.CTA

    def array(self, name: str) -> None:
        return None


def function(*instructions: MachineInstr) -> MachineFunction:
    machine = MachineFunction("f", Target.parse("sm_90a"), attributes={"threads": THREADS}, values=Values())
    machine.block("b").instructions = [*instructions]
    machine.block("b").crew = Crew((1 << THREADS) - 1, elected=False, anchor="b")
    return machine


def instruction(memory: MemoryObject, use: MemoryUse, offset: int, size: int | None, symbol: str = "", line: int = 1):
    touch = MemoryTouch(memory, use, "address", offset, symbol, size)
    return MachineInstr("access", memory=(touch,), location=Location("k.py", line, "k"))


@pytest.mark.parametrize("use", DOES)
def test_at_every_constant_place(use: MemoryUse) -> None:
    """Of unknown bytes one at least; an mma describes a tile that may go round, so of it the first counts alone."""
    for offset, size, multiplies in itertools.product(range(-6, 56), (None, 1, 4, 16, 48, 64), (False, True)):
        one = instruction(SHARED, use, offset, size)
        if multiplies:
            one = MachineInstr("mma", memory=one.memory, location=one.location, semantics=MULTIPLIES)
        last = offset + (1 if multiplies else size or 1) - 1
        found = [
            (
                fault.values["start"],
                fault.values["size"],
                fault.values["does"],
                fault.values["who"],
                fault.values["bytes"],
            )
            for fault in check_shared_bounds(function(one))
        ]
        wrong = not (offset >= 0 and last < 48)
        assert found == [(offset, last - offset + 1, DOES[use], "", 48)] * wrong


@pytest.mark.parametrize("step", STEPS)
def test_at_the_place_of_each_thread(step: str) -> None:
    for offset, size in itertools.product(range(-8, 56, 2), (None, 4, 16)):
        found = [
            (fault.values["start"], fault.values["who"])
            for fault in check_shared_bounds(function(instruction(SHARED, MemoryUse.WRITE, offset, size, f"{step}*1")))
        ]
        leaving = [
            (offset + place, f" in thread {thread}")
            for thread, place in enumerate(STEPS[step])
            if not 0 <= offset + place <= 48 - (size or 1)
        ]
        assert found == leaving[:1], (offset, size)


def test_what_is_no_place_of_shared_memory_or_a_barrier() -> None:
    for offset in (-4, 48, 100):
        for memory, use in ((OTHER, MemoryUse.WRITE), (SHARED, MemoryUse.SYNCHRONIZE)):
            assert check_shared_bounds(function(instruction(memory, use, offset, 4))) == []
        assert len(check_shared_bounds(function(instruction(SHARED, MemoryUse.SYNCHRONIZE, offset, 4, "one*0")))) == 1


def test_a_line_is_told_once_for_each_allocation() -> None:
    accesses = [
        instruction(memory, MemoryUse.WRITE, 48, 4, line=line) for line in (1, 1, 2) for memory in (SHARED, LOCAL)
    ]
    told = [(one.rule_id, one.location.line if one.location else 0) for one in check_shared_bounds(function(*accesses))]
    assert told == [("shared.bounds", 1), ("local.index", 1), ("shared.bounds", 2), ("local.index", 2)]


@pytest.mark.parametrize("offset", [-8, -4, 48, 52])
def test_an_index_of_a_local_array(offset: int) -> None:
    (fault,) = check_shared_bounds(function(instruction(LOCAL, MemoryUse.READ, offset, 4)))
    values = {name: fault.values[name] for name in ("index", "name", "who", "count", "last")}
    assert values == {"index": offset // 4, "name": "local", "who": "", "count": 12, "last": 11}


@pytest.mark.parametrize("uses", [*itertools.product((MemoryUse.READ, MemoryUse.WRITE), repeat=2)])
@pytest.mark.parametrize("memory", [LOCAL, SHARED])
def test_an_array_that_nothing_sets(uses: tuple[MemoryUse, ...], memory: MemoryObject) -> None:
    accesses = [instruction(memory, use, 0, 4, line=line) for line, use in enumerate(uses, start=1)]
    told = [
        (one.values["name"], one.location.line if one.location else 0)
        for one in check_local_arrays(function(*accesses))
    ]
    assert told == [("local", 1)] * (memory is LOCAL and MemoryUse.WRITE not in uses)
