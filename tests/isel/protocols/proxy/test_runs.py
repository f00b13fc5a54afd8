"""Accesses as runs: each access is in one, in the order of the text, and a run is cut where something may order it."""

from __future__ import annotations

import random

import pytest

from nvbackend.isel.flow.accesses import AccessKind, shared_accesses
from nvbackend.isel.flow.dataflow import sites_of
from nvbackend.isel.machine.function import MemoryObject, MemoryTouch
from nvbackend.isel.protocols.proxy.protocol import reduce_function
from tests.support.proxy_program import Program

Access = tuple[int, AccessKind, MemoryTouch]


def program(chance: random.Random) -> Program:
    """Accesses of several kinds to three tiles, two of one allocation: both operands of an mma may be in it."""
    p = Program(tiles=2)
    acc = p.accumulator()
    tiles = [p.tiles.at(0), p.tiles.at(1), p.other]
    steps = {
        "mma": lambda: p.mma(acc, chance.choice(tiles), chance.choice(tiles)),
        "write": lambda: p.write(chance.choice(tiles)),
        "stmatrix": lambda: p.stmatrix(chance.choice(tiles)),
        "fence": p.k.fence.proxy_async,
        "barrier": p.k.barrier.sync,
        "branch": lambda: branch(p, chance),
    }
    for _ in range(12):
        steps[chance.choice(list(steps))]()
    p.k.return_()
    p.k.core.link()
    return p


def branch(p: Program, chance: random.Random) -> None:
    with p.k.if_(p.n > 3):
        p.write(chance.choice([p.tile, p.other]))


@pytest.mark.parametrize("seed", range(12))
def test_each_access_is_in_one_run(seed: int) -> None:
    """Written down a second time: accesses of one kind to one memory, until another kind comes or an ordering step."""
    function = program(random.Random(seed)).k.machine
    accesses, reduced = shared_accesses(function), reduce_function(function)
    expected: list[tuple[AccessKind, MemoryObject, list[tuple[int, MemoryTouch]]]] = []
    for sites in sites_of(function).values():
        open_: dict[MemoryObject, list[tuple[int, MemoryTouch]]] = {}
        kinds: dict[MemoryObject, AccessKind] = {}
        for site in sites:
            said = site.instr.semantics
            if said.fence is not None or said.exits or said.awaits is not None or said.commits is not None:
                open_.clear()
            for kind, touch in accesses.get(site.position, ()):
                if touch.object not in open_ or kinds[touch.object] is not kind:
                    expected.append((kind, touch.object, []))
                    open_[touch.object], kinds[touch.object] = expected[-1][2], kind
                open_[touch.object].append((site.position, touch))
    found = [(run.kind, run.object, [(site.position, touch) for site, touch in run.accesses]) for run in reduced.runs]
    assert found == expected
    assert [run.number for run in reduced.runs] == list(range(len(expected)))
