"""Mbarriers: arrivals, bytes, phases, and what a wait for a phase guarantees. PTX ISA 9.7.13.15.

A wait is for what it guarantees in every order of the warps, not for what this run happened to reach: a thread that
knows that n phases are over goes on when n or n + 1 are, whichever has the parity that it waits for.
"""

from __future__ import annotations

from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.events import Known, Warp
from nvbackend.dry_run.when import When
from nvbackend.isel.machine.function import MachineInstr

Place = tuple[int, int]
"""A CTA and an offset in its shared memory."""


@dataclass(slots=True)
class Arrival:
    """An arrival at a phase: the instruction, its rounds, the warp, the counts of arrivals and bytes."""

    instr: MachineInstr
    rounds: When
    cta: int
    warp: int
    arrivals: int = 0
    expected: int = 0
    brought: int = 0
    seen: int = 0
    at: int = 0
    """What the warp had done and seen before, and how many events there had been."""
    announced: int = 0
    """The bit of its own event, of bytes that are announced without an arrival."""


@dataclass(slots=True, eq=False)
class Mbarrier:
    """The object at a place. `pending` arrivals and `bytes` are still to come in `phase`, the current one's number.

    `came` are the events of this phase's arrivals and copies, `total` of all before; `ends` are, for each phase that is
    over, the event of its end and the total then, and `known` what those know who wait for it. `by` has the last
    arrival of each warp that ever arrived, `ended` what came to the phases that are over, and `brings` says whether the
    bytes of copies ever came.
    """

    place: Place
    name: str
    count: int
    init: int
    instr: MachineInstr
    pending: int = 0
    bytes: int = 0
    phase: int = 0
    seen: int = 0
    fenced: int = 0
    came: int = 0
    copied: int = 0
    """The events of the copies of all phases."""
    total: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    ended: list[list[Arrival]] = field(default_factory=list)
    waited: bool = False
    by: dict[tuple[int, int], Arrival] = field(default_factory=dict)
    brings: bool = False
    together: dict[tuple[int, When], int] = field(default_factory=dict)
    """The arrivals of each instruction, by number and rounds."""

    def tell(self, known: Known, event: int) -> None:
        """Every wait for this phase or a later one comes after this event."""
        self.seen |= known[0] | event
        self.fenced |= known[1]
        self.came |= event

    def advance(self, warp: Warp) -> bool:
        """End the phase if all has come."""
        if self.pending or self.bytes:
            return False
        end = 1 << warp.events.new()
        self.total |= self.came
        self.seen |= end
        self.ends.append((end, self.total))
        self.known.append((self.seen, self.fenced))
        self.came = 0
        self.ended.append(self.arrivals)
        self.arrivals = []
        self.phase += 1
        self.pending = self.count
        return True

    @property
    def last(self) -> list[Arrival]:
        """What came to the last phase."""
        return self.ended[-1] if self.ended else []

    @property
    def unannounced(self) -> int:
        """The bytes that copies have brought to the current phase, where nothing has announced any."""
        return -self.bytes if self.bytes < 0 and not any(one.expected for one in self.arrivals) else 0

    def knows(self, warp: Warp, phase: int) -> bool:
        """Whether the warp certainly comes after the end of a phase: it waited, or all that came to it is known."""
        end, total = self.ends[phase]
        return bool(warp.seen & end) or not total & ~warp.seen

    def knows_last(self, warp: Warp) -> bool:
        """Whether the warp certainly comes after the end of the last phase."""
        return not self.phase or self.knows(warp, self.phase - 1)

    def over(self, warp: Warp) -> int:
        """How many phases are certainly over, as far as the warp knows."""
        for phase in range(self.phase - 1, -1, -1):
            if self.knows(warp, phase):
                return phase + 1
        return 0

    def has_passed(self, parity: int) -> bool:
        """Whether a wait for the phase of this parity returns now."""
        return (self.phase & 1) != parity


@dataclass(frozen=True, slots=True)
class Invalidated:
    """What is left of an mbarrier: its name, the instruction that ended its life, the warp, and the event."""

    name: str
    instr: MachineInstr
    warp: int
    event: int


@dataclass(slots=True)
class Wait:
    """A wait of a warp: the parity or phase, how many phases it guarantees, and whether that is more than was known."""

    barrier: Mbarrier
    instr: MachineInstr
    rounds: When
    wanted: str
    guaranteed: int
    learnt: bool
    at: int
    """How many events there had been when the warp went on."""
    warp: int = 0
    event: int = 0
    """The bit of its own event, of a wait for a parity: it must come before the end of the next phase."""


def is_relaxed(instr: MachineInstr) -> bool:
    """Whether an instruction on an mbarrier orders no memory access."""
    return instr.row is not None and ".relaxed" in instr.row.ptx
