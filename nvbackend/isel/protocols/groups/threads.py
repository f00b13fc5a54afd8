"""Asynchronous operations that other threads commit or wait for than those that issued them.

Which threads may come to a block is known of branches over the thread's index. An error is reported only where a commit
or a wait follows at all (the protocols report a missing one), and none that follows can be of an issuing thread;
of cp.async, which all threads of a crew issue, where some of them come to none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nvbackend.diagnostics import Diagnostic
from nvbackend.isel.flow.dataflow import Site, sites_of
from nvbackend.isel.flow.finished import opcodes
from nvbackend.isel.flow.memory_uses import CP_ASYNC
from nvbackend.isel.flow.warp_paths import coming, everyone
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.protocols.groups import rules
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED
from nvbackend.isel.protocols.shared.footprints import BULK_COPIES

_COPIED = frozenset({"cp.async.wait_all", "cp.async.mbarrier.arrive"})
"""What is for the copies of the executing thread without a group."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """How what these opcodes `issue` is completed: by each of `steps`, any of whose opcodes does, in the same threads.

    `spelled` is in the spelling of all that is meant. `every`: of each thread that certainly issues, not of some one of
    those that may.
    """

    issue: frozenset[str]
    steps: tuple[frozenset[str], ...]
    spelled: str = ""
    every: bool = False

    def issues(self, instr: MachineInstr) -> bool:
        """Whether the instruction issues one of these operations."""
        return instr.opcode in self.issue and (not self.spelled or instr.row is None or self.spelled in instr.row.ptx)


MECHANISMS = (
    Mechanism(
        frozenset({"wgmma.mma_async"}),
        (frozenset({"wgmma.commit_group"}), frozenset({"wgmma.wait_group"})),
    ),
    Mechanism(frozenset({"tcgen05.mma", "tcgen05.mma.ws", "tcgen05.cp"}), (frozenset({"tcgen05.commit"}),)),
    Mechanism(
        frozenset(BULK_COPIES),
        (frozenset({"cp.async.bulk.commit_group"}), frozenset({"cp.async.bulk.wait_group"})),
        spelled="bulk_group",
    ),
    Mechanism(
        frozenset({CP_ASYNC}),
        (_COPIED | {"cp.async.commit_group"}, _COPIED | {"cp.async.wait_group"}),
        every=True,
    ),
)


def check_group_threads(function: MachineFunction) -> list[Diagnostic]:
    """Every commit or wait that other threads execute, at the first one after what it leaves out."""
    there = opcodes(function)
    mechanisms = [one for one in MECHANISMS if all(step & there for step in one.steps)]
    if not mechanisms or function.attributes.get(ATTACHED) or not any(one.sides for one in function.blocks.values()):
        return []
    return list(_GroupThreads(function).find(mechanisms))


class _GroupThreads:
    """The search in one function."""

    def __init__(self, function: MachineFunction) -> None:
        self._function = function
        self._coming = coming(function)
        self._opcodes = {name: {one.opcode for one in block.instructions} for name, block in function.blocks.items()}
        self._before: dict[str, list[str]] = {}
        for name, block in function.blocks.items():
            for successor in block.successors:
                self._before.setdefault(successor, []).append(name)

    def find(self, mechanisms: list[Mechanism]) -> Iterator[Diagnostic]:
        """All of them; each commit or wait is reported once."""
        for mechanism in mechanisms:
            told: set[int] = set()
            issued = self._issued(mechanism)
            for step in mechanism.steps if issued else ():
                ahead = self._ahead(step)
                for site, behind in issued:
                    threads = self._left_out(site, mechanism, ahead)
                    if threads and not any(one.opcode in step for one in behind):
                        completion = self._next(site.block, step)
                        if site.position not in told and completion.position not in told:
                            yield self._diagnose(site, threads, completion)
                        told |= {site.position, completion.position}

    def _issued(self, mechanism: Mechanism) -> list[tuple[Site, list[MachineInstr]]]:
        """The last operation of each block, with the instructions after it."""
        found = []
        for block, sites in sites_of(self._function).items():
            if mechanism.issue.isdisjoint(self._opcodes[block]):
                continue
            for index in reversed(range(len(sites))):
                if mechanism.issues(sites[index].instr):
                    found.append((sites[index], [one.instr for one in sites[index + 1 :]]))
                    break
        return found

    def _ahead(self, step: frozenset[str]) -> Mapping[str, int]:
        """For each block the threads, a bit each, that may come to one of these opcodes in the blocks that follow."""
        found: dict[str, int] = {}
        waiting = [(name, self._coming[name]) for name, there in self._opcodes.items() if not step.isdisjoint(there)]
        while waiting:
            name, threads = waiting.pop()
            for before in self._before.get(name, ()):
                known = found.get(before, 0)
                if threads & ~known:
                    found[before] = known | threads
                    waiting.append((before, known | threads))
        return found

    def _left_out(self, site: Site, mechanism: Mechanism, ahead: Mapping[str, int]) -> int:
        """The threads that issue and come to none of the steps, where others do; 0 where that is not certain."""
        completing, crew = ahead.get(site.block, 0), self._function.blocks[site.block].crew
        if not completing:
            return 0
        if mechanism.every and crew is not None and not crew.elected:
            return crew.bits & ~completing
        threads = self._coming[site.block]
        return 0 if threads & completing else threads

    def _next(self, block: str, step: frozenset[str]) -> Site:
        """The nearest of these opcodes in the blocks that follow."""
        waiting, seen = [block], set[str]()
        for name in waiting:
            for successor in self._function.blocks[name].successors:
                if successor in seen:
                    continue
                seen.add(successor)
                waiting.append(successor)
                for site in sites_of(self._function)[successor]:
                    if site.instr.opcode in step:
                        return site
        raise LookupError(block)

    def _diagnose(self, site: Site, threads: int, completion: Site) -> Diagnostic:
        return rules.OTHER_THREADS.diagnose(
            at=completion.instr.location,
            notes=(("it is issued here", site.instr.location),),
            completion=f"the {completion.instr.opcode}",
            others=self._named(self._coming[completion.block]),
            issue=_place(site.instr),
            issuers=self._named(threads),
        )

    def _named(self, threads: int) -> str:
        if threads == everyone(self._function):
            return "all threads"
        first, last = (threads & -threads).bit_length() - 1, threads.bit_length() - 1
        if threads.bit_count() == 1:
            return f"thread {first}"
        some = "" if threads.bit_count() == last - first + 1 else "some of "
        return f"{some}threads {first} to {last}"


def _place(instr: MachineInstr) -> str:
    return f"the {instr.opcode}" + (f" of line {instr.location.line}" if instr.location else "")
