"""Asynchronous operations that other threads commit or wait for than those that issued them.

Which threads may come to a block is known of branches over the thread's index. An error is reported only where a commit
or a wait follows at all (the protocols report a missing one), and none that follows can be of an issuing thread;
of cp.async, which all threads of a crew issue, where some of them come to none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.semantics import Completion, Semantics
from nvbackend.isel.flow.dataflow import Site, sites_of
from nvbackend.isel.flow.finished import semantics_in
from nvbackend.isel.flow.paths import coming, everyone
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.machine.naming import named_threads, with_line
from nvbackend.isel.protocols.groups import rules
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED

COMPLETIONS = (Completion.MMA_GROUP, Completion.COMMIT, Completion.BULK_GROUP, Completion.COPY_GROUP)
"""What the issuing threads themselves must complete."""
_OF_EACH = (Completion.COPY_GROUP,)
"""What each thread that certainly issues must complete, and not some one of those that may."""

Step = Callable[[Semantics], Collection[Completion | None]]
"""What an instruction completes in a step."""


def _closes(said: Semantics) -> set[Completion | None]:
    return {said.commits, said.tracks}


def _ends(said: Semantics) -> set[Completion | None]:
    return {said.awaits, said.tracks}


_STEPS: tuple[Step, ...] = (_closes, _ends)
"""What is issued is closed, by a commit or by what tracks it, and then waited for."""


def check_group_threads(function: MachineFunction) -> list[Diagnostic]:
    """Every commit or wait that other threads execute, at the first one after what it leaves out."""
    there = semantics_in(function)
    if function.attributes.get(ATTACHED):
        return []
    completed = [{completion for said in there for completion in step(said)} for step in _STEPS]
    wanted = [completion for completion in COMPLETIONS if all(completion in step for step in completed)]
    return list(_GroupThreads(function).find(wanted)) if wanted else []


class _GroupThreads:
    """The search in one function."""

    def __init__(self, function: MachineFunction) -> None:
        self._function = function
        self._coming = coming(function)
        self._there = {
            name: [*{id(instruction.semantics): instruction.semantics for instruction in block.instructions}.values()]
            for name, block in function.blocks.items()
        }
        self._before: dict[str, list[str]] = {}
        for name, block in function.blocks.items():
            for successor in block.successors:
                self._before.setdefault(successor, []).append(name)

    def find(self, completions: Iterable[Completion]) -> Iterator[Diagnostic]:
        """All of them; each commit or wait is reported once."""
        for by in completions:
            told: set[int] = set()
            issued = self._issued(by)
            for step in _STEPS if issued else ():
                ahead = self._ahead(by, step)
                for site, behind in issued:
                    threads = self._left_out(site, by, ahead)
                    if threads and not any(by in step(semantics.semantics) for semantics in behind):
                        completion = self._next(site.block, by, step)
                        if site.position not in told and completion.position not in told:
                            yield self._diagnose(site, threads, completion)
                        told |= {site.position, completion.position}

    def _issued(self, by: Completion) -> list[tuple[Site, list[MachineInstr]]]:
        """The last operation of each block, with the instructions after it."""
        issues = []
        for sites in sites_of(self._function).values():
            last = [index for index, site in enumerate(sites) if site.instr.semantics.issues is by][-1:]
            issues += [(sites[index], [later.instr for later in sites[index + 1 :]]) for index in last]
        return issues

    def _ahead(self, by: Completion, step: Step) -> Mapping[str, int]:
        """For each block the threads, a bit each, that may come to such a step in the blocks that follow."""
        coming: dict[str, int] = {}
        waiting = [
            (name, self._coming[name]) for name, there in self._there.items() if any(by in step(said) for said in there)
        ]
        while waiting:
            name, threads = waiting.pop()
            for before in self._before.get(name, ()):
                known = coming.get(before, 0)
                if known | threads != known:
                    coming[before] = known | threads
                    waiting.append((before, known | threads))
        return coming

    def _left_out(self, site: Site, by: Completion, ahead: Mapping[str, int]) -> int:
        """The threads that issue and come to none of the steps, where others do; 0 where that is not certain."""
        completing, crew = ahead.get(site.block, 0), self._function.blocks[site.block].crew
        if not completing:
            return 0
        if by in _OF_EACH and crew is not None and not crew.elected:
            return crew.bits & ~completing
        threads = self._coming[site.block]
        return 0 if threads & completing else threads

    def _next(self, block: str, by: Completion, step: Step) -> Site:
        """The nearest such step in the blocks that follow."""
        waiting, seen = [block], set[str]()
        for name in waiting:
            for successor in self._function.blocks[name].successors:
                if successor in seen:
                    continue
                seen.add(successor)
                waiting.append(successor)
                for site in sites_of(self._function)[successor]:
                    if by in step(site.instr.semantics):
                        return site
        raise LookupError(block)

    def _diagnose(self, site: Site, threads: int, completion: Site) -> Diagnostic:
        return rules.OTHER_THREADS.diagnose(
            at=completion.instr.location,
            notes=(("it is issued here", site.instr.location),),
            completion=f"the {completion.instr.opcode}",
            others=named_threads(self._coming[completion.block], everyone(self._function)),
            issue=with_line(site.instr),
            issuers=named_threads(threads, everyone(self._function)),
        )
