"""What comes before griddepcontrol.wait: accesses of global memory that the kernels before this one may still use.

Each parameter is an array of its own. A thread comes after the wait by its own, or by a barrier or mbarrier that others
may have come to after theirs; of such a thread nothing is said. Where some warps wait and others certainly access an
array with neither, these are named.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import RegisterClass
from nvbackend.intrinsics.row.semantics import GridUse, MbarrierUse, Scope, TensorMapUse
from nvbackend.isel.flow.dataflow import Site, sites_of
from nvbackend.isel.flow.graphs import ControlFlow
from nvbackend.isel.flow.paths import coming, everyone
from nvbackend.isel.flow.plain_accesses import with_plain
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, RunTimeValues
from nvbackend.isel.machine.naming import named_threads
from nvbackend.isel.machine.pseudo import ARRAY
from nvbackend.isel.protocols.grids import rules

_MAP = "tensor_map"
"""The operand that is a tensor map."""


@dataclass(frozen=True)
class _Access:
    """An access of a parameter's array."""

    site: Site
    name: str
    writes: bool

    @property
    def done(self) -> str:
        """What is done to the array."""
        return "written" if self.writes else "read"


def check_grids(function: MachineFunction) -> Iterator[Diagnostic]:
    """Every array that is accessed before the wait, in the order of the text."""
    return _Grids(with_plain(function)).find()


class _Grids:
    """The search in one function."""

    def __init__(self, function: MachineFunction) -> None:
        self._values = function.values
        self._blocks = function.blocks
        self._coming = coming(function)
        self._everyone = everyone(function)
        self._flow = ControlFlow({name: block.successors for name, block in function.blocks.items()})
        there = {name: sites for name, sites in sites_of(function).items() if name in self._flow.successors}
        self._sites = [site for sites in there.values() for site in sites]
        self._waits = [site for site in self._sites if _waits(site.instr)]

    def find(self) -> Iterator[Diagnostic]:
        """What is wrong, each array once."""
        accesses = [each for site in self._sites if (each := _access(site, self._values)) is not None]
        late = self._late(accesses)
        told: set[str] = set()
        for each in accesses:
            if each.name in told:
                continue
            threads = self._untold(each.site) if each in late else 0
            if each in late and not threads:
                continue
            told.add(each.name)
            yield self._diagnose(each, late, threads)

    def _diagnose(self, each: _Access, late: list[_Access], threads: int) -> Diagnostic:
        """Of an access before each wait, or one by `threads` that know of none."""
        meets = [after for after in late if after.name == each.name and (after.writes or each.writes)]
        at = each.site.instr.location
        before = "before"
        notes: tuple[tuple[str, Location | None], ...] = ()
        if threads:
            verb = "does" if threads.bit_count() == 1 else "do"
            before = f"by {named_threads(threads, self._everyone)}, which {verb} not come after"
            notes = (("others wait here", self._waits[0].instr.location),)
        if not meets:
            use = "use" if each.writes else "write"
            return rules.READ_EARLY.diagnose(
                at=at, notes=notes, name=each.name, early=each.done, before=before, use=use
            )
        place = meets[0].site.instr.location
        line = f"line {place.line}" if place else meets[0].site.instr.opcode
        notes = ((f"it is {meets[0].done} here", place), *notes)
        return rules.ACCESSED_EARLY.diagnose(
            at=at, notes=notes, name=each.name, early=each.done, before=before, late=meets[0].done, line=line
        )

    def _untold(self, site: Site) -> int:
        """The threads, a bit each, that certainly come to a place and know of no wait, neither theirs nor others'."""
        told = 0
        for other in (*self._waits, *filter(self._tells, self._sites)):
            is_before = other.block == site.block and other.position < site.position
            if is_before or site.block in self._behind(other.block):
                told |= self._coming[other.block]
        crew, come = self._blocks[site.block].crew, self._coming[site.block]
        if not come & told:
            return come
        return crew.bits & ~told if crew is not None and not crew.elected else 0

    def _tells(self, site: Site) -> bool:
        """Whether threads may go on here after others that have waited, of whatever comes next."""
        if self._may_tell(site):
            return True
        barrier = site.instr.semantics.barrier
        return barrier is not None and barrier.waits and any(self._follows(wait, site) for wait in self._waits)

    def _behind(self, block: str) -> set[str]:
        """The blocks that may follow one."""
        return self._flow.reached(self._flow.successors[block])

    def _late(self, accesses: list[_Access]) -> list[_Access]:
        """Those that may come after a wait."""
        orders = [*self._waits, *(site for site in self._sites if self._may_tell(site))]
        first: dict[str, int] = {}
        for site in orders:
            first[site.block] = min(site.position, first.get(site.block, site.position))
        behind = {name for block in first for name in self._behind(block)}
        return [
            each
            for each in accesses
            if each.site.block in behind or first.get(each.site.block, each.site.position) < each.site.position
        ]

    def _may_tell(self, site: Site) -> bool:
        """Whether a thread may go on here after others that have waited; what follows a wait is late in any case."""
        said = site.instr.semantics
        if said.mbarrier is not None and (MbarrierUse.WAIT in said.mbarrier or MbarrierUse.POLL in said.mbarrier):
            return True
        if said.atomic or (said.memory and said.acquires > Scope.THREAD):
            return True
        if said.barrier is None or not said.barrier.waits:
            return False
        return not any(self._follows(site, wait) for wait in self._waits)

    def _follows(self, first: Site, second: Site) -> bool:
        """Whether the second may come after the first; before it in one block it makes all late that follows."""
        return first.block == second.block or second.block in self._behind(first.block)


def _waits(instr: MachineInstr) -> bool:
    return instr.semantics.grids is GridUse.WAIT


def _access(site: Site, values: RunTimeValues | None) -> _Access | None:
    """The access of a parameter's array, where the instruction is one."""
    instr, said = site.instr, site.instr.semantics
    if values is not None and (access := _of_address(instr, values)) is not None:
        return _Access(site, *access)
    name = instr.operands.get(ARRAY) if instr.row is None else _of_map(instr)
    if not name:
        return None
    # A copy that completes at an mbarrier brings what it reads.
    writes = any(use.writes for use in said.memory) if instr.row is None else said.mbarrier is None
    return _Access(site, name, writes)


def _of_address(instr: MachineInstr, values: RunTimeValues) -> tuple[str, bool] | None:
    """The parameter that a load, a store or a copy has the address of, and whether it writes there.

    An atomic, and an access that has an order with those of other threads, may be what they wait for one another by.
    """
    said = instr.semantics
    if instr.row is None or said.atomic or said.tensor_map is not None or max(said.acquires, said.releases):
        return None
    for use in said.memory:
        if instr.row.operand(use.name).register is RegisterClass.GLOBAL:
            name = values.array(instr.operands[use.name])
            return None if name is None else (name, use.writes)
    return None


def _of_map(instr: MachineInstr) -> str | None:
    """The parameter whose tensor map a copy uses: what the builder names itself begins with a period."""
    if instr.semantics.tensor_map is not TensorMapUse.COPY:
        return None
    name = instr.operands.get(_MAP, "").strip('%"')
    return None if name.startswith(".") else name
