"""What a kernel does with its mbarriers: every instruction that concerns one, with what is known of it.

A cell is one mbarrier, or an array of them where they are chosen at run time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import groupby

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.semantics import BARRIER, MbarrierUse
from nvbackend.isel.flow.dataflow import Site, sites_of
from nvbackend.isel.flow.finished import kept_of_text
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse

ATTACHED = "attached"
"""The attribute of a function that has other code than what the machine form shows."""
WRITES = (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE)


@dataclass(frozen=True, slots=True)
class Cell:
    """An mbarrier at a known `offset` of its allocation, or an unknown one where it is None."""

    object: MemoryObject
    offset: int | None

    def __hash__(self) -> int:
        return hash((self.object.id, self.offset))

    def __str__(self) -> str:
        count = self.object.bytes // max(1, self.object.element_bytes)
        if count <= 1:
            return self._of("the mbarrier")
        if self.offset is None:
            return self._of("the mbarriers")
        return f"{self._of('mbarrier')}[{self.offset // self.object.element_bytes}]"

    def _of(self, kind: str) -> str:
        return kind if self.object.name == "mbarrier" else f"{kind.removeprefix('the ')} {self.object.name}"


@dataclass(frozen=True, slots=True)
class Use:
    """One instruction's use of a cell; `exact` is the mbarrier that it names itself, where `cell` is an array."""

    site: Site
    cell: Cell
    exact: Cell
    role: MbarrierUse

    def fact(self, name: str) -> int | None:
        """A number known of the instruction, by its name in `isel.machine.facts`."""
        return self.site.instr.facts.get(name)

    @property
    def threads(self) -> int | None:
        """How many threads of the CTA execute it."""
        return self.fact(facts.THREADS)

    @property
    def is_by_engine(self) -> bool:
        """Whether an asynchronous copy completes bytes; mbarrier.complete_tx, which moves none, is of the thread."""
        return bool(self.role & MbarrierUse.COMPLETE) and bool(self.site.instr.semantics.memory)

    @property
    def is_remote(self) -> bool:
        """Whether the mbarrier may be that of another CTA."""
        row = self.site.instr.row
        return row is not None and _names_peers(row)


@cache
def _names_peers(row: Row) -> bool:
    return any(operand.name == BARRIER and operand.register is RegisterClass.SHARED_CLUSTER for operand in row.operands)


@dataclass(frozen=True)
class Uses:
    """All uses, in the order of the text.

    `lost` are the roles of instructions that use an unknown or unrecorded mbarrier; `escaped` are
    the allocations that ordinary code touches: an mbarrier's uses there are incomplete; `arrays` those that are
    one cell each.
    """

    all: tuple[Use, ...]
    by_block: Mapping[str, tuple[Use, ...]]
    lost: MbarrierUse
    escaped: frozenset[MemoryObject]
    arrays: frozenset[MemoryObject]

    @cached_property
    def _by_role(self) -> dict[MbarrierUse, Mapping[Cell, Sequence[Use]]]:
        return {}

    @cached_property
    def _placed(self) -> dict[tuple[Cell, MbarrierUse], Mapping[str, list[Use]]]:
        return {}

    def of(self, cell: Cell, role: MbarrierUse) -> Sequence[Use]:
        """The uses of a cell in one of the roles, in the order of the text."""
        cells = self._by_role.get(role)
        if cells is None:
            cells = self._by_role[role] = self._in_role(role)
        uses = cells.get(cell, ())
        if not uses and cell.offset is not None and cell.object in self.arrays:
            return cells.get(Cell(cell.object, None), ())
        return uses

    def _in_role(self, role: MbarrierUse) -> Mapping[Cell, Sequence[Use]]:
        """The uses in one of the roles, in the order of the text, by their cells."""
        matching = {known for known in self._roles if known & role}
        by_cell: dict[Cell, list[Use]] = {}
        for use in self.all:
            if use.role in matching:
                by_cell.setdefault(use.cell, []).append(use)
        return by_cell

    @cached_property
    def _roles(self) -> frozenset[MbarrierUse]:
        return frozenset(use.role for use in self.all)

    def inside(self, blocks: Collection[str], cell: Cell, role: MbarrierUse) -> list[Use]:
        """Those of them that are in one of `blocks`; looked up there, since each of many loops asks for its own."""
        key = cell, role
        placed = self._placed.get(key)
        if placed is None:
            placed = self._placed[key] = {}
            for use in self.of(cell, role):
                placed.setdefault(use.site.block, []).append(use)
        return sorted((use for name in placed.keys() & blocks for use in placed[name]), key=_position)

    @cached_property
    def arrivals(self) -> frozenset[int]:
        """The positions of all that arrive."""
        return frozenset(use.site.position for uses in self._in_role(MbarrierUse.ARRIVE).values() for use in uses)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell, in the order of the text."""
        return tuple(dict.fromkeys(use.cell for use in self.all))

    def lacks(self, cell: Cell, role: MbarrierUse) -> bool:
        """Whether certainly nothing in the kernel does this with the cell."""
        return not (self.lost & role or cell.object in self.escaped or self.of(cell, role))


def _position(use: Use) -> int:
    return use.site.position


def role_of(instr: MachineInstr) -> MbarrierUse:
    """What `instr` does with its mbarrier."""
    return instr.semantics.mbarrier or _NOTHING


def is_waiting(instr: MachineInstr) -> bool:
    """Whether it waits for a phase of an mbarrier, or asks whether that has completed."""
    return instr.semantics.mbarrier in _WAITING


_NOTHING = MbarrierUse(0)
_WAITING = (MbarrierUse.WAIT, MbarrierUse.POLL)


@kept_of_text
def find_uses(function: MachineFunction) -> Uses:
    """Every use of an mbarrier in `function`."""
    sites = [site for block in sites_of(function).values() for site in block]
    arrays = _chosen_at_run_time(sites)
    lost, all_uses = ~MbarrierUse(0) if function.attributes.get(ATTACHED) else MbarrierUse(0), []
    cells: dict[Cell, Cell] = {}
    for site in sites:
        touch = barrier_touch(site.instr)
        if touch is not None:
            exact = Cell(touch.object, None if touch.symbol else touch.offset)
            exact = cells.setdefault(exact, exact)  # one object of each, which is found without a comparison
            cell = Cell(touch.object, None) if touch.object in arrays else exact
            all_uses.append(Use(site, cell, exact, role_of(site.instr)))
        elif site.instr.row is not None and site.instr.row.has_operand(BARRIER):
            lost |= role_of(site.instr)
    escaped = frozenset(
        touch.object for site in sites for touch in site.instr.memory if touch.use is not MemoryUse.SYNCHRONIZE
    )
    by_block: dict[str, tuple[Use, ...]] = {
        block: tuple(uses) for block, uses in groupby(all_uses, lambda use: use.site.block)
    }
    return Uses(tuple(all_uses), by_block, lost, escaped, frozenset(arrays))


def barrier_touch(instr: MachineInstr) -> MemoryTouch | None:
    """The access to an mbarrier as one, None where the instruction has no known access."""
    for touch in instr.memory:
        if touch.use is MemoryUse.SYNCHRONIZE:
            return touch
    return None


def _chosen_at_run_time(sites: Iterable[Site]) -> set[MemoryObject]:
    """The allocations of which some access does not say which mbarrier it is."""
    touches = (touch for site in sites for touch in site.instr.memory if touch.use is MemoryUse.SYNCHRONIZE)
    return {touch.object for touch in touches if touch.symbol}
