"""What orders ordinary accesses of different threads: barriers of known threads, and all else that may.

An instruction that lets a thread go on after something that others did *acquires*; one that lets others go on
*releases*. A barrier of known threads does both for all of them at once, and for them alone. Of all others (mbarriers,
fences, named barriers whose threads are not known) it is not known whom they order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from nvbackend.isel.flow.dataflow import Site, reverse_postorder
from nvbackend.isel.machine.function import Crew, MachineBlock, MachineFunction, MachineInstr

_BARRIERS = ("bar.sync", "barrier.sync", "bar.red", "barrier.red")
_CLUSTER = ("barrier.cluster.arrive", "barrier.cluster.wait")
_FENCES = ("fence", "membar", "griddepcontrol", "atom", "multimem")
_ACQUIRES = ("mbarrier.try_wait", "mbarrier.test_wait", *_FENCES)
_RELEASES = (
    "mbarrier.arrive",
    "mbarrier.complete_tx",
    "mbarrier.expect_tx",
    "bar.arrive",
    "barrier.arrive",
    "tcgen05.commit",
    "cp.async.mbarrier",
    "red.",
    "st.async",
    *_FENCES,
)
_NO_FENCES = ("fence.proxy.async.", "fence.mbarrier_init")
"""Of one thread alone: they order its own accesses, and the proxies."""

Groups = tuple[int, ...]
"""Sets of threads that a barrier keeps together, a bit each; none where it is not known whom it keeps together."""


class Syncs:
    """The barriers of one function."""

    def __init__(self, function: MachineFunction, sites: Mapping[str, Sequence[Site]]) -> None:
        threads = function.attributes.get("threads")
        self._function = function
        self.everybody: Groups = ((1 << threads) - 1,) if isinstance(threads, int) else ()
        self._sites = sites
        self._at = {site.position: site for found in sites.values() for site in found}
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
        found = self.everybody
        for position in positions:
            if position in self._at:
                found = together(found, self.groups(self._at[position]))
        return found

    def _found(self, instr: MachineInstr, block: MachineBlock) -> Groups:
        if instr.opcode in _CLUSTER:
            return self.everybody
        if instr.row is None or instr.opcode not in _BARRIERS:
            return ()
        number = instr.operands.get("id", "0")
        if not instr.row.axes["counted"]:
            return self.everybody if number.isdigit() else ()
        count = instr.operands.get("threads", "")
        crew = block.crew
        if crew is None or crew.elected or not count.isdigit():
            return ()
        return tuple(group for group in self._by_number(number, crew) if group.bit_count() == int(count))

    def _by_number(self, number: str, crew: Crew) -> Iterable[int]:
        """The threads of the crew that name one barrier each."""
        if number.isdigit():
            return [crew.bits]
        known = None if self._function.values is None else self._function.values.numbers(number)
        found: dict[int, int] = {}
        for thread, one in enumerate(known or ()):
            if crew.bits >> thread & 1:
                found[one] = found.get(one, 0) | 1 << thread
        return found.values()

    def first_release(self, site: Site) -> Groups:
        """The threads that the first release after `site` keeps together on all paths; the kernel's end keeps none."""
        if self._first is None:
            self._first = self._solve()
        rest = [one for one in self._sites[site.block] if one.position > site.position]
        return self._through(site.block, rest)

    def _through(self, block: str, sites: Iterable[Site]) -> Groups:
        assert self._first is not None
        for site in sites:
            if releases(site.instr):
                return self.groups(site)
        found = self.everybody
        for successor in self._function.blocks[block].successors:
            found = together(found, self._first.get(successor, self.everybody))
        return found

    def _solve(self) -> dict[str, Groups]:
        """Where each block begins. Groups only become smaller."""
        order = reverse_postorder(self._function)[::-1]
        self._first = first = dict.fromkeys(order, self.everybody)
        changed = True
        while changed:
            changed = False
            for block in order:
                found = self._through(block, self._sites[block])
                if found != first[block]:
                    first[block] = found
                    changed = True
        return first


def together(first: Groups, second: Groups) -> Groups:
    """The threads that both keep together."""
    if first == second:
        return first
    return tuple(sorted({both for one in first for other in second if (both := one & other)}))


def acquires(instr: MachineInstr) -> bool:
    """Whether it may let its thread go on after what others did."""
    return instr.row is not None and _acquires(instr.opcode, instr.row.ptx)


def releases(instr: MachineInstr) -> bool:
    """Whether it may let others go on after what its thread did."""
    return instr.row is not None and _releases(instr.opcode, instr.row.ptx)


@cache
def _acquires(opcode: str, spelling: str) -> bool:
    return opcode in (*_BARRIERS, "barrier.cluster.wait") or _matches(spelling, _ACQUIRES)


@cache
def _releases(opcode: str, spelling: str) -> bool:
    return opcode in (*_BARRIERS, "barrier.cluster.arrive") or _matches(spelling, _RELEASES)


def _matches(spelling: str, prefixes: tuple[str, ...]) -> bool:
    return spelling.startswith(prefixes) and not f"{spelling}.".startswith(_NO_FENCES)
