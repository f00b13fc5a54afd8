"""Random graphs of blocks with signals to peers, waits, and barriers of the cluster, beside walks over instructions."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.intrinsics.copy import tma_bulk
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.intrinsics.sync import cluster, mbarrier, mbarrier_phases
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import (
    Branch,
    MachineFunction,
    MachineInstr,
    MemoryObject,
    MemoryTouch,
    MemoryUse,
)
from nvbackend.isel.protocols.cluster.protocol import check_cluster_protocol
from nvbackend.isel.target.target import Target

CTAS = 4
EVERYONE = (1 << CTAS) - 1
ROWS = {
    "fill": mbarrier.arrive(expect_tx=True),
    "signal": mbarrier.arrive("cluster"),
    "announce": mbarrier.arrive("cluster", expect_tx=True),
    "wait": mbarrier.wait_parity(),
    "poll": mbarrier.try_wait_parity(),
    "expect": mbarrier_phases.transaction("expect_tx", "cluster"),
    "send": tma_bulk.copy_bulk(),
    "multicast": tma_bulk.load_bulk(multicast=True),
    "arrive": cluster.barrier_arrive(),
    "meet": cluster.barrier_wait(),
}
BARRIERS = [MemoryObject(index + 1, name, "shared", 8, 8) for index, name in enumerate(("full", "empty"))]
EARLY, TWICE = "cluster.exit-before-peers", "cluster.arrived-twice"
WAIT_ALONE, ARRIVE_ALONE = "cluster.wait-alone", "cluster.arrive-alone"
Said = tuple[str, int, tuple[int, ...]]
"""A rule, the line, and the lines of its notes."""


class Made:
    """A function; of its instructions, by their lines: the block, the kind, the mbarrier, and the mask of a copy."""

    def __init__(self, draw: random.Random) -> None:
        self.ctas = draw.choice((1, CTAS, CTAS, CTAS))
        self.function = MachineFunction("f", Target.parse("sm_90a"), attributes={"threads": 32, "cluster": self.ctas})
        names = [f"b{index}" for index in range(draw.randint(1, 6))]
        self.kinds: dict[int, tuple[str, str, MemoryObject | None, int]] = {}
        self.unknown: set[int] = set()
        back = draw.random() < 0.5
        likely = draw.choice(
            ["fill signal wait poll", "multicast wait", "fill wait poll poll signal", "arrive meet", " ".join(ROWS)]
        ).split()
        for index, name in enumerate(names):
            if index:
                free = [one for one in self.function.blocks.values() if len(one.successors) < 2]
                draw.choice(free).successors.append(name)
            self.function.block(name)
        for index, name in enumerate(names):
            block = self.function.blocks[name]
            onward = names if back else names[index + 1 :]
            others = [one for one in onward if one not in block.successors]
            if others and len(block.successors) < 2 and draw.random() < (0.3 if block.successors else 0.6):
                block.successors.insert(draw.randint(0, 1), draw.choice(others))
            if len(block.successors) > 1:
                block.branch = Branch(draw.choice((Scope.CTA, Scope.CTA, Scope.CLUSTER, Scope.WARP)))
            for _ in range(draw.choice((0, 0, 1, 1, 2, 5))):
                self._add(draw, name, draw.choice(likely if draw.random() < 0.8 else [*ROWS]))
            if not block.successors:
                self._add(draw, name, "ret")

    def _add(self, draw: random.Random, block: str, kind: str) -> None:
        line = len(self.kinds) + 1
        barrier = draw.choice(BARRIERS) if kind not in ("arrive", "meet", "ret") else None
        mask = draw.choice((EVERYONE, EVERYONE, 0b101, 0b100)) if kind == "multicast" else 0
        known = {facts.MASK: mask} if mask else {}
        if draw.random() < 0.95:
            known[facts.THREADS] = 32
        else:
            self.unknown.add(line)
        touches = () if barrier is None else (MemoryTouch(barrier, MemoryUse.SYNCHRONIZE, "barrier"),)
        instr = MachineInstr(kind, ROWS.get(kind), facts=known, memory=touches, location=Location("k.py", line, "f"))
        self.function.blocks[block].instructions.append(instr)
        self.kinds[line] = (block, kind, barrier, mask)

    # -- walks over the instructions ----------------------------------------------------------------------------------

    def first(self, blocks: list[str]) -> set[int]:
        """The lines that a thread may execute first, from the starts of these blocks."""
        found: set[int] = set()
        left, seen = list(blocks), set(blocks)
        while left:
            name = left.pop()
            lines = [line for line, (block, *_) in self.kinds.items() if block == name]
            if lines:
                found.add(lines[0])
            else:
                new = set(self.function.blocks[name].successors) - seen
                left, seen = [*left, *new], seen | new
        return found

    def next(self, line: int) -> set[int]:
        """Those that a thread may execute next."""
        block = self.kinds[line][0]
        if line + 1 in self.kinds and self.kinds[line + 1][0] == block:
            return {line + 1}
        return self.first(self.function.blocks[block].successors)

    def after(self, line: int, until: frozenset[str] = frozenset()) -> set[int]:
        """All that may come after the line, on ways that end at instructions of these kinds."""
        found: set[int] = set()
        left = [line]
        while left:
            new = self.next(left.pop()) - found
            found |= new
            left += [one for one in new if self.kinds[one][1] not in until]
        return found

    def blocks_after(self, name: str) -> set[str]:
        """All that a thread may come to from the end of a block."""
        found: set[str] = set()
        left = [name]
        while left:
            new = set(self.function.blocks[left.pop()].successors) - found
            found, left = found | new, [*left, *new]
        return found

    # -- what is to be said -------------------------------------------------------------------------------------------

    def pairs(self) -> list[Said]:
        meets = frozenset({"arrive", "meet"})
        start, reached = self.first([self.function.entry.name]), self.reached()
        last: dict[int, set[int | None]] = {line: set() for line in reached}
        for line in reached:
            if self.kinds[line][1] in meets:
                for later in self.after(line, meets):
                    last[later].add(line)
        for line in start | {one for first in start for one in self._until_meets(first)}:
            last[line].add(None)
        found: list[Said] = []
        for line in sorted(reached):
            kind = self.kinds[line][1]
            if last[line] & self.unknown:
                continue
            pending = sorted(one for one in last[line] if one is not None and self.kinds[one][1] == "arrive")
            if kind == "arrive" and pending:
                found.append((TWICE, line, (pending[0],)))
            elif kind == "meet" and len(pending) < len(last[line]):
                found.append((WAIT_ALONE, line, ()))
            elif kind == "ret" and pending:
                found.append((ARRIVE_ALONE, pending[0], ()))
        return found

    def _until_meets(self, line: int) -> set[int]:
        meets = frozenset({"arrive", "meet"})
        return set() if self.kinds[line][1] in meets else self.after(line, meets)

    def reached(self) -> set[int]:
        start = self.first([self.function.entry.name])
        return start | {one for line in start for one in self.after(line)}

    def early(self) -> list[Said]:
        found: list[Said] = []
        if self.ctas == 1:
            return found
        told = set()
        for line, (_, kind, barrier, mask) in self.kinds.items():
            waits = [one for one, said in self.kinds.items() if said[1] in ("wait", "poll") and said[2] == barrier]
            remote = kind in ("signal", "announce", "send")
            if barrier in told or not (remote or mask.bit_count() > 1) or not (waits or remote):
                continue
            may_end = any(self.kinds[one][1] == "ret" for one in self.after(line, frozenset({"meet"})))
            undrained = may_end and not any(self.drains(wait, line) for wait in waits)
            if undrained or (mask == EVERYONE and self.is_skipped(line, waits)):
                told.add(barrier)
                found.append((EARLY, line, tuple(waits[:3])))
        return found

    def drains(self, wait: int, signal: int) -> bool:
        home = self.kinds[wait][0]
        behind = {home, *self.blocks_after(home)}
        fills = {block for block, kind, *_ in self.kinds.values() if kind in ("fill", "multicast")}
        return wait in self.after(signal) or not behind & fills

    def is_skipped(self, signal: int, waits: list[int]) -> bool:
        """Whether the CTA can choose its ways at its own branches so that no thread of it comes to a wait."""
        blocks = self.function.blocks
        met = {self.kinds[one][0] for one in self.after(signal) if self.kinds[one][1] == "meet"}
        waiting = met | {self.kinds[one][0] for one in waits}
        own = [
            name
            for name, block in blocks.items()
            if block.branch is not None and block.branch.uniform is Scope.CTA and name not in self.blocks_after(name)
        ]
        for ways in itertools.product((0, 1), repeat=len(own)):
            taken = replace(self.function, blocks=dict(blocks))
            for name, way in zip(own, ways, strict=True):
                taken.blocks[name] = replace(blocks[name], successors=blocks[name].successors[way : way + 1])
            entry = taken.entry.name
            chosen = object.__new__(Made)
            chosen.function, chosen.kinds = taken, self.kinds
            if waiting.isdisjoint({entry, *chosen.blocks_after(entry)}):
                return True
        return False


def said(diagnostic: Diagnostic) -> Said:
    assert diagnostic.location is not None
    return diagnostic.rule_id, diagnostic.location.line, tuple(place.line for _, place in diagnostic.notes if place)


@pytest.mark.parametrize("part", range(4))
def test_pairs_of_the_cluster_barrier_and_the_last_signals(part: int) -> None:
    seen: dict[str, int] = {}
    for seed in range(150 * part, 150 * (part + 1)):
        made = Made(random.Random(seed))
        found = [said(one) for one in check_cluster_protocol(made.function)]
        wanted = made.pairs() + made.early()
        assert found == wanted, f"{seed}\n{made.function}"
        for rule, *_ in found or [("none",)]:
            seen[rule] = seen.get(rule, 0) + 1
    assert set(seen) == {"none", EARLY, TWICE, WAIT_ALONE, ARRIVE_ALONE} and min(seen.values()) > 9, seen
