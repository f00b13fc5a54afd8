"""What the proxy analysis says: who wrote what, who reads it, and what is missing between the two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.accesses import AccessKind, Run
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.machine.naming import MOST_NOTES, with_line
from nvbackend.isel.protocols.mbarrier.uses import barrier_touch
from nvbackend.isel.protocols.proxy import rules
from nvbackend.isel.protocols.proxy.state import Meeting

_COMMITS = {
    AccessKind.MULTIPLY: "wgmma.commit_group",
    AccessKind.STORE: "cp.async.bulk.commit_group",
    AccessKind.COPY: "cp.async.commit_group",
}
_WAITS = {
    AccessKind.MULTIPLY: "wgmma.wait_group",
    AccessKind.STORE: "cp.async.bulk.wait_group",
    AccessKind.COPY: "cp.async.wait_group",
}
_CALLS = {
    AccessKind.MULTIPLY: "k.wgmma.wait_group(0)",
    AccessKind.STORE: "k.tma.wait_group(reading=True), in the thread that stored,",
    AccessKind.COPY: "k.cp_async.wait_group(0)",
}


def diagnose(causes: Sequence[Meeting], tracker: MachineInstr | None = None) -> Diagnostic:
    """The meetings of one cause in words, at the place of the first.

    `tracker` is what arrives on an mbarrier when the function's cp.async are done.
    """
    told = causes[0]
    at = told.second.site.instr.location
    memory = _memory([meeting.first for meeting in causes])
    first, second = with_line(told.first.site.instr), with_line(told.second.site.instr)
    writes = ((f"{cause.first.object.name} is written here", cause.first.site) for cause in causes)
    if told.first.kind is AccessKind.WRITE:
        does = "overwrites" if told.second.kind is AccessKind.LOAD else "reads"
        fix = _fence(told, first, second)
        return rules.MISSING_FENCE.diagnose(
            at=at, notes=_notes(writes), reader=second, does=does, writer=first, memory=memory, fix=fix
        )
    if told.first.kind in (AccessKind.LOAD, AccessKind.RECEIVE):
        return rules.READ_BEFORE_WAIT.diagnose(
            at=at, notes=_notes(writes), reader=second, writer=first, memory=memory, barrier=_barriers(told.first)
        )
    reason = _reason(told)
    if told.first.kind is AccessKind.COPY:
        fix = f"put {_CALLS[AccessKind.COPY]} before this line"
        if 0 in told.ages and tracker is not None:
            touch = barrier_touch(tracker)
            barrier = "the mbarrier" if touch is None else f"mbarrier {touch.object.name}"
            reason = f"no wait is between them for {barrier}, on which {with_line(tracker)} arrives when it has come"
            fix = (
                f"put k.mbarrier.wait before this line, for the phase of {barrier} in which {with_line(tracker)} comes"
            )
        elif 0 in told.ages:
            fix = f"put k.cp_async.commit_group() after {first}, and {_CALLS[AccessKind.COPY]} before this line"
        return rules.COPY_READ_BEFORE_WAIT.diagnose(
            at=at, notes=_notes(writes), reader=second, writer=first, memory=memory, reason=reason, fix=fix
        )
    wait = f"put {_CALLS[told.first.kind]} before this line"
    if 0 in told.ages:
        wait = f"close the group of {first} with a commit after it, and {wait}"
    reads = ((f"{cause.first.object.name} is read from here on", cause.first.site) for cause in causes)
    return rules.WRITE_IN_FLIGHT.diagnose(
        at=at,
        notes=_notes(reads),
        writer=second,
        reader=first,
        memory=memory,
        reason=reason,
        fix=wait,
    )


def _fence(told: Meeting, writer: str, reader: str) -> str:
    """Where the fence belongs: what cp.async copies is written when a wait says so, and not before."""
    if told.first.site.instr.semantics.issues is Completion.COPY_GROUP:
        return f"put k.fence.proxy_async() after the wait for {writer}, in the threads of {reader}"
    also = "copy" if told.second.kind is AccessKind.LOAD else "read"
    put = f"put k.fence.proxy_async() after {writer}, in the threads that write"
    return f"{put}, and a barrier of threads after the fence where other threads {also}"


def diagnose_exit(run: Run, site: Site, ages: frozenset[int]) -> Diagnostic:
    """A bulk store that is pending at the end of the kernel, reported where it is issued."""
    notes = _notes([("the kernel ends here", site)])
    at, reader, memory = run.site.instr.location, f"the {run.site.instr.opcode}", _memory([run])
    if 0 in ages:
        return rules.STORE_NOT_COMMITTED.diagnose(at=at, notes=notes, reader=reader, memory=memory)
    reason = f"{_no_wait(AccessKind.STORE, min(ages))} is between the two"
    return rules.STORE_NOT_WAITED.diagnose(at=at, notes=notes, reader=reader, memory=memory, reason=reason)


def _reason(meeting: Meeting) -> str:
    kind = meeting.first.kind
    age = min(meeting.ages)
    if age == 0:
        return f"no {_COMMITS[kind]} has closed its group, so no wait covers it"
    return f"{_no_wait(kind, age)} is between them"


def _no_wait(kind: AccessKind, age: int) -> str:
    return f"no {_WAITS[kind]} that leaves fewer than {age} {'group' if age == 1 else 'groups'}"


def _memory(runs: Iterable[Run]) -> str:
    objects = list(dict.fromkeys(run.object for run in sorted(runs, key=lambda run: run.object.id)))
    names = ", ".join(dict.fromkeys(memory.name for memory in objects))
    return objects[0].called if len(objects) == 1 else f"shared memory {names}"


def _barriers(run: Run) -> str:
    names = sorted({barrier.name for barrier in run.barriers if barrier is not None})
    return f"mbarrier {', '.join(names)}" if names and names != ["mbarrier"] else "the mbarrier of the copy"


def _notes(places: Iterable[tuple[str, Site]]) -> tuple[tuple[str, Location | None], ...]:
    return tuple(dict.fromkeys((text, site.instr.location) for text, site in places))[:MOST_NOTES]
