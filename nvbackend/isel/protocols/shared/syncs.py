"""What orders ordinary accesses of different threads: barriers of known threads, and all else that may.

An instruction that lets a thread go on after something that others did *acquires*; one that lets others go on
*releases*. A barrier of known threads does both for all of them at once, and for them alone. Of all others (mbarriers,
fences, named barriers whose threads are not known) it is not known whom they order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.dataflow import Site, reverse_postorder
from nvbackend.isel.flow.paths import everyone
from nvbackend.isel.machine.function import Crew, MachineBlock, MachineFunction, MachineInstr

_COUNT = "threads"
Groups = tuple[int, ...]
"""Sets of threads that a barrier keeps together, a bit each; none where it is not known whom it keeps together."""


class Syncs:
    """The barriers of one function."""

    def __init__(self, function: MachineFunction, sites: Mapping[str, Sequence[Site]]) -> None:
        self._function = function
        self.everybody: Groups = (everyone(function),)
        self._sites = sites
        self._at = {site.position: site for of_block in sites.values() for site in of_block}
        self._groups: dict[int, Groups] = {}
        self._first: dict[str, Groups] | None = None

    def groups(self, site: Site) -> Groups:
        """Whom the barrier at `site` keeps together."""
        if site.position not in self._groups:
            self._groups[site.position] = self._found(site.instr, self._function.blocks[site.block])
        return self._groups[site.position]

    def block(self, position: int) -> str | None:
        """The block of the instruction at `position`; None for the start of the kernel."""
        return self._at[position].block if position in self._at else None

    def before(self, positions: Iterable[int]) -> Groups:
        """The threads that all the barriers at these positions keep together; without one, the start of the kernel."""
        groups = self.everybody
        for position in positions:
            if position in self._at:
                groups = together(groups, self.groups(self._at[position]))
        return groups

    def _found(self, instr: MachineInstr, block: MachineBlock) -> Groups:
        barrier = instr.semantics.barrier
        if barrier is not None and barrier.scope is Scope.CLUSTER:
            return self.everybody
        if instr.row is None or not instr.semantics.waits_at(Scope.CTA):
            return ()
        number = instr.operands.get("id", "0")
        if not instr.row.has_operand(_COUNT):
            return self.everybody if number.isdigit() else ()
        count = instr.operands.get(_COUNT, "")
        crew = block.crew
        if crew is None or crew.elected or not count.isdigit():
            return ()
        return tuple(group for group in self._by_number(number, crew) if group.bit_count() == int(count))

    def _by_number(self, number: str, crew: Crew) -> Iterable[int]:
        """The threads of the crew that name one barrier each."""
        if number.isdigit():
            return [crew.bits]
        known = None if self._function.values is None else self._function.values.numbers(number)
        threads = defaultdict[int, int](int)
        for thread, token in enumerate(known or ()):
            if crew.bits >> thread & 1:
                threads[token] |= 1 << thread
        return threads.values()

    def first_release(self, site: Site) -> Groups:
        """The threads that the first release after `site` keeps together on all paths; the kernel's end keeps none."""
        if self._first is None:
            self._first = self._solve()
        rest = [later for later in self._sites[site.block] if later.position > site.position]
        return self._through(site.block, rest)

    def _through(self, block: str, sites: Iterable[Site]) -> Groups:
        assert self._first is not None
        for site in sites:
            if releases(site.instr):
                return self.groups(site)
        groups = self.everybody
        for successor in self._function.blocks[block].successors:
            groups = together(groups, self._first.get(successor, self.everybody))
        return groups

    def _solve(self) -> dict[str, Groups]:
        """Where each block begins. Groups only become smaller."""
        order = reverse_postorder(self._function)[::-1]
        self._first = first = dict.fromkeys(order, self.everybody)
        changed = True
        while changed:
            changed = False
            for block in order:
                groups = self._through(block, self._sites[block])
                if groups != first[block]:
                    first[block] = groups
                    changed = True
        return first


def together(first: Groups, second: Groups) -> Groups:
    """The threads that both keep together."""
    if first == second:
        return first
    return tuple(sorted({both for group in first for other in second if (both := group & other)}))


def acquires(instr: MachineInstr) -> bool:
    """Whether it may let its thread go on after what threads of other warps did."""
    return instr.semantics.acquires > Scope.WARP


def releases(instr: MachineInstr) -> bool:
    """Whether it may let threads of other warps go on after what its thread did."""
    return instr.semantics.releases > Scope.WARP
