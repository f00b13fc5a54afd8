"""The interface between the machine of a dry run and the protocols: a step, and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple, Protocol, TypeAlias

from nvbackend.diagnostics import Diagnostic
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.facts import Facts
from nvbackend.dry_run.objects.fills import Fill
from nvbackend.dry_run.values.unknown import UNKNOWN, Unknown
from nvbackend.dry_run.values.vectors import Lanes
from nvbackend.dry_run.when import When
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.signature import LaunchBounds, Shape

__all__ = [
    "ALL_LANES",
    "BLOCKED",
    "DONE",
    "RANK_SHIFT",
    "UNKNOWN",
    "Blocked",
    "Done",
    "Exceeded",
    "Launch",
    "MakeProtocols",
    "Named",
    "Outcome",
    "Protocols",
    "Results",
    "Step",
    "Unknown",
    "Value",
]

RANK_SHIFT = 24
"""Where an address of shared memory holds the rank of its CTA in the cluster, as on the hardware."""
ALL_LANES = 0xFFFF_FFFF
"""Every lane of a warp, a bit each."""


Value: TypeAlias = "int | Lanes | Unknown"
"""A register of a warp: a number that is the same in all lanes, 32 numbers, or unknown. Numbers are not negative:
they are the register's bits. What inactive lanes have means nothing."""


def _nothing(_instr: MachineInstr, _operand: str, _index: int = 0) -> frozenset[str]:
    return frozenset()


class Exceeded(Exception):
    """An index leaves its allocation, and parameters that the run itself chose decide how far it goes."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(names)
        self.names = names


@dataclass(frozen=True, slots=True)
class Launch:
    """What runs: so many CTAs of so many threads, `cluster` of them in a cluster; whole clusters.

    An address of shared memory is `rank << RANK_SHIFT | offset`, of the own CTA and of its peers alike; the memory that
    the kernel allocates lies in `shared`, by offset.
    """

    target: Target
    threads: int
    cluster: int
    ctas: int
    shared: range
    registers: int | None = None
    """The registers of a thread at launch, where that is known."""
    grid: int = 1
    """The clusters of the grid along x; the others of them do not run."""
    places: Mapping[str, int] = field(default_factory=dict)
    """The offset of each variable of LLVM in shared memory, by its name."""
    promised: Callable[[MachineInstr, str], frozenset[str]] = _nothing
    """The parameters, among those that were chosen, that decide how far an operand's address goes."""
    sources: Callable[[MachineInstr, str, int], frozenset[str]] = _nothing
    """The parameters, among those that were chosen, that a register of an operand is computed from."""
    first: int = 0
    """The place along x of the cluster that runs."""
    row: int = 0
    """Its place along y and z, where the grid has one more."""
    after: int = 0
    """How many rows of clusters come after it along y and z."""
    taken: int = 1
    """How many clusters it may take over from the launch."""
    bounds: LaunchBounds | None = None
    """The shapes of CTAs and clusters, where they do not lie along x alone."""
    function: MachineFunction | None = None
    """What runs, where a fix asks which threads come to a place."""
    inverted: MachineInstr | None = None
    """A wait of which the run takes the other parity, to see whether that is what is wrong."""

    @property
    def shape(self) -> Shape:
        """The threads of a CTA along x, y and z."""
        return (self.threads, 1, 1) if self.bounds is None else self.bounds.shape

    @property
    def cluster_shape(self) -> Shape:
        """The CTAs of a cluster along x, y and z."""
        return (self.cluster, 1, 1) if self.bounds is None else self.bounds.cluster_shape

    @property
    def warps(self) -> int:
        """The warps of a CTA."""
        return -(-self.threads // 32)

    def lanes(self, warp: int) -> int:
        """The lanes of a warp, a bit each: of the last one there may be fewer."""
        return (1 << min(32, self.threads - 32 * warp)) - 1


@dataclass(slots=True)
class Step:
    """A warp, or the warps of a warpgroup, execute one instruction.

    `cta` is the rank in the cluster, or of several clusters `cluster * size + rank`; `warps` are those of this CTA;
    `lanes` are the active ones of each warp after the guard, a bit each. `value` gives an operand by its name in the
    row, and the nth register of it; of several warps what all have in common, or that of one. Immediates are there too.
    `rounds` says in which rounds of the loops around it the instruction runs.
    """

    instr: MachineInstr
    cta: int
    warps: tuple[int, ...]
    lanes: int
    value: Callable[..., Value]
    rounds: Callable[[], When]
    facts: Facts
    swaps: bool = False
    """Whether it is an atomic that leaves nothing of what was there."""
    decides: bool = False
    """Whether it is an atomic by whose result something is decided: threads may wait for one another by it."""
    changes: bool = False
    """Whether it is a store of a sum of what is loaded from the same place."""
    guessed: bool = False
    """Whether it is guessed that the thread comes here: not where its index would leave the memory."""


class Done:
    """The step is executed; its outputs are unknown."""

    __slots__ = ()


class Blocked:
    """The warp waits: the same step is executed again when something has changed."""

    __slots__ = ()


DONE: Final = Done()
BLOCKED: Final = Blocked()


class Named(NamedTuple):
    """An unknown value that is the same for all threads that get it: what phase `phase` of a barrier gives."""

    cta: int
    barrier: int
    phase: int


Results: TypeAlias = "Mapping[str, Value | Named]"
"""The step is executed, and these are its outputs by their names in the row (of the first register)."""
Outcome: TypeAlias = "Done | Blocked | Results"


class Protocols(Protocol):
    """What judges the steps of one run."""

    def execute(self, step: Step) -> Outcome:
        """The step happens now, if it can."""

    def met(self, cta: int, warp: int) -> None:
        """The lanes of a warp have reconverged, by an instruction that is not a step."""

    def left_out(self) -> None:
        """Some threads do not access what they may access: there may be more writes than the steps show."""

    def ended(self, cta: int, warp: int) -> None:
        """All threads of a warp have left the kernel."""

    def deadlock(self, waiting: Sequence[Step]) -> None:
        """No warp can go on; these are the steps that wait."""

    def first_waits(self) -> Sequence[MachineInstr]:
        """Where threads wait for the first phase of an mbarrier at which nobody has arrived: none before a deadlock."""

    def told_at(self, instr: MachineInstr) -> list[Diagnostic]:
        """The deadlock as that of a wait that is to be inverted."""

    def finish(self, *, whole: bool = True) -> list[Diagnostic]:
        """What was found, when all warps have ended or none can go on; not `whole` where the run was given up."""

    def unread(self) -> Iterable[tuple[MachineInstr, Fill]]:
        """The copies that are in shared memory at the end, with what nothing has read of them."""


MakeProtocols: TypeAlias = Callable[[Launch], Protocols]
