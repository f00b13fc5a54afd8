"""Accesses before griddepcontrol.wait in random graphs of blocks, against a walk from each instruction on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import (
    GridUse,
    MbarrierUse,
    Scope,
    Semantics,
    ThreadBarrier,
    reads,
    writes,
)
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.isel.verify.rare import check_grids

WAIT = Semantics(grids=GridUse.WAIT)
ALWAYS = {
    "wait for a phase": Semantics(mbarrier=MbarrierUse.WAIT),
    "poll": Semantics(mbarrier=MbarrierUse.POLL),
    "atomic": Semantics(atomic=True),
    "acquire": Semantics(memory=(reads("address"),), acquires=Scope.CTA),
}
"""By these a thread may learn that another one has waited."""
NEVER = {
    "launch": Semantics(grids=GridUse.LAUNCH),
    "arrive at a phase": Semantics(mbarrier=MbarrierUse.ARRIVE),
    "relaxed": Semantics(memory=(reads("address"),)),
    "release": Semantics(memory=(writes("address"),), releases=Scope.CTA),
    "fence": Semantics(acquires=Scope.CTA),
    "arrive": Semantics(barrier=ThreadBarrier(Scope.CTA, waits=False)),
}
BARRIER = Semantics(barrier=ThreadBarrier(Scope.CTA))
"""By this too, if the kernel does not wait for the grids after it: then nobody has waited."""
LOAD, STORE = Semantics(memory=(reads("address", 4),)), Semantics(memory=(writes("address", 4),))
BOTH = Semantics(memory=(reads("address", 4), writes("address", 4)))
MAPPED = [row for row in tma_tensor.rows() if row.opcode == "cp.async.bulk.tensor"]
LOADS, STORES = ([row for row in MAPPED if (".global.shared" in row.ptx) is to_global] for to_global in (False, True))
"""Copies of a tile, by their spelling: from global memory, and to it."""


@dataclass(frozen=True)
class Line:
    """What an instruction is to the grids, and the array that it reads or writes."""

    what: str
    said: Semantics
    name: str = ""
    writes: bool = False
    row: Row | None = None


def line(chance: random.Random) -> Line:
    what = chance.choice((*["access"] * 8, "wait", "wait", "barrier", "barrier", "always", "never"))
    if what == "wait":
        return Line(what, WAIT)
    if what == "barrier":
        return Line(what, BARRIER)
    if what in ("always", "never"):
        return Line(what, chance.choice([*(ALWAYS if what == "always" else NEVER).values()]))
    name = chance.choice("xyz")
    if chance.random() < 0.2:
        writes = chance.random() < 0.5
        row = chance.choice(STORES if writes else LOADS)
        return Line(chance.choice(("access", "access", "unnamed")), row.semantics, name, writes, row)
    return chance.choice((Line(what, LOAD, name), Line(what, STORE, name, True), Line(what, BOTH, name, True)))


Program = dict[str, tuple[list[Line], list[str]]]


def program(chance: random.Random) -> Program:
    names = [f"b{index}" for index in range(chance.randint(1, 5))]
    return {
        name: (
            [line(chance) for _ in range(chance.randint(0, 4))],
            chance.sample(names, min(len(names), chance.choice((0, 1, 2, 2)))),
        )
        for name in names
    }


def machine(blocks: Program, *, places: bool) -> MachineFunction:
    chance = random.Random(len(blocks))
    function = MachineFunction("kernel", Target.parse("sm_90a"))
    position = 0
    for name, (lines, ways) in blocks.items():
        function.block(name).successors = ways
        for one in lines:
            operands = {"array": one.name} if one.name else {}
            if one.row is not None:  # the builder's own map, and one of which it is not known, are no array
                named = chance.choice((f'%"{one.name}"', f"%{one.name}", one.name))
                operands = {"tensor_map": named if one.what == "access" else chance.choice((f"%.{one.name}", ""))}
            at = Location("k.py", position + 1, "k") if places else None
            function.block(name).instructions.append(
                MachineInstr(f"i{position}", one.row, operands=operands, semantics=one.said, location=at)
            )
            position += 1
    return function


def after(blocks: Program, name: str, index: int) -> set[tuple[str, int]]:
    """What may be executed after an instruction; of an empty block its place 0 stands for it."""
    found: set[tuple[str, int]] = set()
    waiting = [(name, index)]
    while waiting:
        block, at = waiting.pop()
        lines, ways = blocks[block]
        following = [(block, at + 1)] if at + 1 < len(lines) else [(way, 0) for way in ways]
        fresh = [place for place in following if place not in found]
        found.update(fresh)
        waiting += fresh
    return found


Told = tuple[str, str, str, str, str]


def expected(blocks: Program) -> Iterator[Told]:
    """Array, what is done early, and then what is done late and where, or what other kernels may do."""
    entry = next(iter(blocks))
    start = after(blocks, entry, -1)
    there = [(name, at) for name, (lines, _) in blocks.items() for at in range(len(lines)) if (name, at) in start]
    number = {
        place: index
        for index, place in enumerate((name, at) for name, (lines, _) in blocks.items() for at in range(len(lines)))
    }
    said = {place: blocks[place[0]][0][place[1]] for place in there}
    if not any(one.what == "wait" for lines, _ in blocks.values() for one in lines):
        return
    waits = {place for place in there if said[place].what == "wait"}
    tells = {
        place
        for place in there
        if said[place].what in ("wait", "always")
        or (said[place].what == "barrier" and not after(blocks, *place) & waits)
    }
    late = [place for place in there if any(place in after(blocks, *one) for one in tells)]
    told = set()
    for place in there:
        one = said[place]
        if one.what != "access" or place in late or one.name in told:
            continue
        told.add(one.name)
        early = "written" if one.writes else "read"
        meets = [
            each
            for each in late
            if said[each].what == "access" and said[each].name == one.name and (said[each].writes or one.writes)
        ]
        if meets:
            done = "written" if said[meets[0]].writes else "read"
            yield one.name, early, done, f"{number[meets[0]]}", f"{number[place]}"
        else:
            yield one.name, early, "use" if one.writes else "write", "", f"{number[place]}"


def shown(one: Diagnostic, *, places: bool) -> Told:
    values = one.values
    late = str(values.get("line", ""))
    if late:
        late = str(int(late.removeprefix("line ")) - 1) if places else late.removeprefix("i")
        ((text, place),) = one.notes
        assert text == f"it is {values['late']} here"
        assert (place.line - 1 if place else None) == (int(late) if places else None)
    else:
        assert one.notes == ()
    assert one.rule_id == ("griddepcontrol.early-conflict" if late else "griddepcontrol.early-access")
    at = str(one.location.line - 1) if places and one.location else ""
    return str(values["name"]), str(values["early"]), str(values.get("late", values.get("use"))), late, at


@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize("first", range(0, 450, 150))
def test_what_comes_before_the_wait_on_some_path(first: int, places: bool) -> None:
    count = 0
    for seed in range(first, first + 150):
        blocks = program(random.Random(seed))
        found = [shown(one, places=places) for one in check_grids(machine(blocks, places=places))]
        wanted = [one if places else (*one[:4], "") for one in expected(blocks)]
        assert found == wanted, (seed, blocks)
        count += len(found)
    assert count > 15
