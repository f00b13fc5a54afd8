"""What is said of every pair of accesses that meet, for every age: read once, and held word for word."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.isel.flow.accesses import AccessKind, Relation, Run
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.machine.function import MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.proxy.state import HAZARDS, Meeting
from nvbackend.isel.protocols.proxy.text import diagnose, diagnose_exit
from tests.support.golden import Golden

TILE, OTHER, FULL = (
    MemoryObject(number, name, "shared", 1024, 16) for number, name in enumerate(("tile", "other", "full"), start=1)
)
OPCODES = {
    AccessKind.WRITE: "st.shared",
    AccessKind.READ: "ld.shared",
    AccessKind.COPY: "cp.async",
    AccessKind.LOAD: "cp.async.bulk",
    AccessKind.RECEIVE: "st.async",
    AccessKind.STORE: "cp.async.bulk.global",
    AccessKind.SEND: "cp.async.bulk.cluster",
    AccessKind.MULTIPLY: "wgmma.mma_async",
    AccessKind.MULTIPLY_5: "tcgen05.mma",
}
TRACKED = (
    MemoryTouch(OTHER, MemoryUse.READ, "source"),
    MemoryTouch(FULL, MemoryUse.SYNCHRONIZE, "barrier"),
)
AGES = ({0}, {0, 2}, {1}, {1, 3}, {2}, {3, 5})


def run(kind: AccessKind, memory: MemoryObject, line: int, *, barrier: bool = True, placed: bool = True) -> Run:
    """One access, which completes at an mbarrier where that is known, at a line where that is."""
    touch = MemoryTouch(memory, MemoryUse.WRITE, "address")
    touches = (touch, MemoryTouch(FULL, MemoryUse.SYNCHRONIZE, "barrier")) if barrier else (touch,)
    place = Location("k.py", line, "k") if placed else None
    return Run(
        line, kind, memory, [(Site(line, "b", MachineInstr(OPCODES[kind], memory=touches, location=place)), touch)]
    )


def said(one: Diagnostic) -> str:
    notes = "; ".join(f"{text} at {place.line if place else 'no line'}" for text, place in one.notes)
    at = one.location.line if one.location and one.location.file == "k.py" else "no line"
    return f"{one.rule_id} at {at}: {one.message}\n    fix: {one.fix}\n    notes: {notes}"


def texts() -> Iterator[str]:
    for first, seconds in HAZARDS.items():
        for second in AccessKind:
            if second not in seconds:
                continue
            counted = first in (AccessKind.COPY, AccessKind.STORE, AccessKind.MULTIPLY)
            for ages in AGES if counted else AGES[:1]:
                made = Meeting(run(first, TILE, 3), run(second, TILE, 7), Relation.SURE, frozenset(ages))
                yield f"{first.value}, {second.value}, {sorted(ages)}: {said(diagnose([made]))}"
    for barrier, placed in ((False, True), (True, False)):
        for first in (AccessKind.WRITE, AccessKind.LOAD, AccessKind.STORE):
            second = AccessKind.WRITE if first is AccessKind.STORE else AccessKind.MULTIPLY
            several = [
                Meeting(
                    run(first, memory, line, barrier=barrier, placed=placed),
                    run(second, memory, 9, placed=placed),
                    Relation.SURE,
                    frozenset({1}),
                )
                for memory, line in ((OTHER, 5), (TILE, 3), (TILE, 4))
            ]
            yield f"three {first.value}, {barrier=}, {placed=}: {said(diagnose(several))}"
    for memory, ages in itertools.product((TRACKED, ()), AGES):
        tracker = MachineInstr("cp.async.mbarrier.arrive", memory=memory, location=Location("k.py", 4, "k"))
        made = Meeting(run(AccessKind.COPY, TILE, 3), run(AccessKind.READ, TILE, 7), Relation.SURE, frozenset(ages))
        yield f"tracked on {len(memory)}, {sorted(ages)}: {said(diagnose([made], tracker))}"
    for ages in AGES:
        store, end = run(AccessKind.STORE, TILE, 3), run(AccessKind.READ, TILE, 8).site
        yield f"end, {sorted(ages)}: {said(diagnose_exit(store, end, frozenset(ages)))}"


def test_every_pair_and_age(golden: Golden) -> None:
    golden.check("texts.proxy", "\n".join(texts()))
