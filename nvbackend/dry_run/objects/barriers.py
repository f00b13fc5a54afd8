"""Named barriers of a CTA and the barrier of a cluster: arrivals, and what the threads that continue know."""

from __future__ import annotations

from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.events import Known, Warp
from nvbackend.dry_run.when import When
from nvbackend.isel.machine.function import MachineInstr


@dataclass(slots=True)
class Comer:
    """An arrival at a barrier of threads: its warp, instruction, count of threads and rounds."""

    instr: MachineInstr
    warp: int
    cta: int
    rounds: When
    count: int | None
    waits: bool


@dataclass(slots=True, eq=False)
class Barrier:
    """A barrier of threads. `count` is None where it counts all warps that have not ended."""

    number: int
    cta: int
    phase: int = 0
    count: int | None = None
    arrived: int = 0
    seen: int = 0
    fenced: int = 0
    came: int = 0
    before: int = 0
    ends: list[int] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    comers: list[Comer] = field(default_factory=list)
    last: list[Comer] = field(default_factory=list)
    apart: dict[tuple[int, When], tuple[list[int], Comer]] = field(default_factory=dict)
    """By instruction and rounds, where warps came and others came elsewhere: these warps, and one of the others."""
    holding: list[tuple[int, int] | None] = field(default_factory=list)
    """Of each warp of this phase that gives a predicate: where it holds, and all lanes. None where that is unknown."""
    held: dict[int, list[tuple[int, int] | None]] = field(default_factory=dict)
    """The same of the phases before."""

    def reduced(self, phase: int, operation: str) -> int | None:
        """What a reducing barrier gives of the predicates of a phase; None where they do not say."""
        known = [one for one in self.held.get(phase, ()) if one is not None]
        decided = {"or": any(there for there, _ in known), "and": any(there != lanes for there, lanes in known)}
        if not decided.get(operation) and len(known) < len(self.held.get(phase, ())):
            return None
        if operation == "popc":
            return sum(there.bit_count() for there, _ in known)
        return int(decided["or"] if operation == "or" else not decided["and"])

    def arrive(self, warp: Warp, comer: Comer, known: Known, threads: int) -> None:
        """A warp arrives."""
        event = warp.mark()
        if not self.comers:
            self.count = comer.count
        self.comers.append(comer)
        self.arrived += threads
        self.seen |= known[0] | event
        self.fenced |= known[1]
        self.came |= event

    def note_apart(self) -> None:
        """Keep of the last phase who came where, if not all came in the same round to the same instruction."""
        places = {(id(one.instr), one.rounds): one for one in self.last}
        for place in places if len(places) > 1 else ():
            others = next(one for at, one in places.items() if at != place)
            here = [one.warp for one in self.last if (id(one.instr), one.rounds) == place]
            self.apart.setdefault(place, (here, others))

    def knows_last(self, warp: Warp) -> bool:
        """Whether the warp certainly comes after the end of the last phase."""
        return not self.phase or bool(warp.seen & self.ends[-1]) or not self.before & ~warp.seen

    def advance(self, warp: Warp, needed: int) -> bool:
        """End the phase if so many threads have arrived."""
        if not self.comers or self.arrived < needed:
            return False
        end = 1 << warp.events.new()
        warp.events.starts |= end
        self.seen |= end
        self.ends.append(end)
        self.known.append((self.seen, self.fenced))
        self.before, self.came = self.came, 0
        self.last, self.comers = self.comers, []
        if self.holding:
            self.held[self.phase], self.holding = self.holding, []
        self.phase += 1
        self.arrived = 0
        return True
