"""Groups of asynchronous operations of a warp's lanes: what is committed, and what a wait guarantees."""

from __future__ import annotations

from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.record import Part
from nvbackend.dry_run.when import When
from nvbackend.isel.machine.function import MachineInstr


@dataclass(slots=True, eq=False)
class Operation:
    """An operation that is waited for by groups: its event, its lanes, and the group of each, or of all.

    `waited` are the lanes that have waited for it, and `writes` are the CTAs and what threads copy to each.
    """

    bit: int
    instr: MachineInstr
    lanes: int
    rounds: When
    group: dict[int, int] | int
    waited: int = 0
    writes: list[tuple[int, Part]] = field(default_factory=list)

    def group_of(self, lane: int) -> int:
        """The group of a lane."""
        return self.group if isinstance(self.group, int) else self.group[lane]


@dataclass(slots=True)
class Groups:
    """One kind of groups of one warp: `commits` of all its lanes, or where they differ, `uneven` of each."""

    commits: int = 0
    uneven: list[int] | None = None
    operations: list[Operation] = field(default_factory=list)

    def add(self, bit: int, instr: MachineInstr, lanes: int, rounds: When) -> Operation:
        """The operation joins the group that each of its lanes has not committed yet."""
        group: dict[int, int] | int = self.commits
        if self.uneven is not None:
            group = {lane: self.uneven[lane] for lane in range(32) if lanes >> lane & 1}
        operation = Operation(bit, instr, lanes, rounds, group)
        self.operations.append(operation)
        return operation

    def commit(self, lanes: int) -> None:
        """What each of these lanes has added since its last commit becomes a group."""
        if lanes == 0xFFFF_FFFF and self.uneven is None:
            self.commits += 1
            return
        if self.uneven is None:
            self.uneven = [self.commits] * 32
        self.uneven = [count + (lanes >> lane & 1) for lane, count in enumerate(self.uneven)]

    @property
    def has_committed(self) -> bool:
        """Whether some lane has committed a group."""
        return bool(self.commits if self.uneven is None else max(self.uneven))

    def committed(self, lane: int) -> int:
        """How many groups a lane has committed."""
        return self.commits if self.uneven is None else self.uneven[lane]

    def wait(self, lanes: int, leave: int) -> list[Operation]:
        """What the warp knows to be over when these lanes leave so many of their last groups in flight."""
        over, left = [], []
        for operation in self.operations:
            if self.uneven is None and isinstance(operation.group, int):
                if operation.group < self.commits - leave:
                    operation.waited |= lanes
            else:
                for lane in range(32):
                    mine = lanes & operation.lanes & 1 << lane
                    if mine and operation.group_of(lane) < self.committed(lane) - leave:
                        operation.waited |= mine
            if operation.lanes & ~operation.waited:
                left.append(operation)
            else:
                over.append(operation)
        self.operations = left
        return over

    def tracked(self, lanes: int) -> int:
        """The events of all operations of these lanes for which there was no wait."""
        found = 0
        for operation in self.operations:
            if not operation.lanes & ~lanes:
                found |= operation.bit
        return found

    def is_committed(self, operation: Operation) -> bool:
        """Whether every lane has committed it."""
        lanes = (lane for lane in range(32) if operation.lanes >> lane & 1)
        return all(operation.group_of(lane) < self.committed(lane) for lane in lanes)


@dataclass(slots=True)
class Issued:
    """What a warp has issued of the kind that commits track: the events of all its lanes, and of each set of them.

    `first` is the first operation of each set of lanes.
    """

    of_all: int = 0
    by_lanes: dict[int, int] = field(default_factory=dict)
    first: dict[int, MachineInstr] = field(default_factory=dict)

    def add(self, bit: int, instr: MachineInstr, lanes: int) -> None:
        """One more operation, of these lanes."""
        self.of_all |= bit
        self.by_lanes[lanes] = self.by_lanes.get(lanes, 0) | bit
        self.first.setdefault(lanes, instr)

    def tracked(self, lanes: int) -> int:
        """The events that a commit by these lanes tracks: those of their own operations."""
        events = 0
        for others, of_these in self.by_lanes.items():
            events |= of_these if others & lanes else 0
        return events
