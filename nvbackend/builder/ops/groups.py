"""Who computes something together: all threads of the CTA, or a group of its warps with a named barrier of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from functools import partial
from typing import NoReturn

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address, Memory
from nvbackend.builder.core.threads import Threads
from nvbackend.builder.ops.sync.barrier import Barrier
from nvbackend.builder.ops.words import MOST_BYTES
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import Diagnostic, Location, Rule, caller_location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import WARP_SIZE, Scope
from nvbackend.intrinsics.row.types import s32, u8
from nvbackend.isel.operands.sync import check_barrier_id, check_barrier_threads
from nvbackend.isel.protocols.convergence.rules import BARRIER_DIVERGENT, BARRIER_SKIPPED, WARP_DIVERGENT

_PARTINGS = (WARP_DIVERGENT, BARRIER_DIVERGENT, BARRIER_SKIPPED)
THREADS = Rule(
    id="cta.threads",
    message="{call} is executed by {count} of the CTA's {threads} threads",
    fix="call it where all threads come, before any of them returns, and give threads that do not count a value that "
    "changes nothing, 0 for add, -inf for max: k.select(condition, value, neutral), for several values "
    "values.map(lambda value: k.select(condition, value, neutral)); or let whole warps call k.cta.reduce or k.cta.scan "
    "by themselves: threads=..., barrier=...",
    why="It waits at a barrier for all threads of the CTA, and those that never come would leave the others waiting.",
    reference="PTX ISA 9.7.13.1 (barrier)",
)
GROUP = Rule(
    id="cta.group",
    message="{call} of {group}: {problem}",
    fix="{instead}",
    why="The group's warps wait for one another at its barrier: with other warps, or without some, they hang or go on "
    "early.",
    reference="PTX ISA 9.7.13.1 (barrier)",
)
_WHOLE = "let whole groups come, each with a number of its own, and count the threads of one: threads=..."


_ALIGN = 16


@dataclass(frozen=True, slots=True)
class _Shared:
    """The shared memory of a group, or of the groups that come to one call."""

    memory: Memory
    buffers: list[Address] = field(default_factory=list)
    areas: dict[int, Address] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Threads that compute together, as the code that each of them executes sees them.

    `warps` are those of a group. `warp` is what gives the number of the thread's warp among those of all groups that
    come to the call, and buffers have a cell for each of these `cells` warps.
    """

    warps: int
    cells: int
    warp: Callable[[], Value]
    sync: Callable[[], None]
    shared: _Shared
    name: str

    @property
    def is_alone(self) -> bool:
        """Whether no other group comes to the call."""
        return self.cells == self.warps

    def rank(self) -> Value:
        """The number of the thread's warp in its group."""
        return self.warp() if self.is_alone else self.warp() % self.warps

    def first_cells(self, cells: list[Address]) -> list[Address]:
        """Of buffers, the cell of the first warp of the thread's group in each."""
        if self.is_alone:
            return cells
        start = self.warp() // self.warps * self.warps
        return [cell + start for cell in cells]

    def buffer(self, place: int) -> Address:
        """The shared memory for one value of each warp: that of the calls before, or more."""
        buffers = self.shared.buffers
        while len(buffers) <= place:
            name = f"{self.name}_{len(buffers)}"
            buffers.append(self.shared.memory.shared(u8, MOST_BYTES * self.cells, align=16, name=name))
        return buffers[place]

    def area(self, size: int) -> Address:
        """Shared memory of `size` bytes, another part of it for each group that comes to the call."""
        areas, part = self.shared.areas, -(-size // _ALIGN) * _ALIGN
        if part not in areas:
            count, name = -(-self.cells // self.warps), f"{self.name}_area"
            areas[part] = self.shared.memory.shared(u8, part * count, align=_ALIGN, name=name)
        return areas[part] if self.is_alone else areas[part] + self.warp() // self.warps * part


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose barrier it is: the warps, the call, and where that was first."""

    warps: range
    text: str
    place: Location | None


class Groups:
    """The groups of a kernel: their barriers, and their shared memory."""

    def __init__(self, k: Core, memory: Memory, threads: Threads, barrier: Barrier) -> None:
        self._k = k
        self._memory = memory
        self._threads = threads
        self._barrier = barrier
        self._owners: dict[int, _Owner] = {}
        self._shared: dict[tuple[tuple[int, int], ...], _Shared] = {}

    def of(self, call: str, threads: int | None, barrier: Operand | None) -> Group:
        """The group that executes `call`: all threads, or groups of `threads` that meet at `barrier`.

        Raises cta.threads, cta.group, barrier.id, barrier.threads, barrier.waits.
        """
        if threads is None and barrier is None:
            check_all_come(self._k, call)
            cells = self._k.threads // WARP_SIZE
            return Group(
                cells, cells, self._warp, self._barrier.sync, self._shared.setdefault((), _Shared(self._memory)), "cta"
            )
        if threads is None or barrier is None:
            if barrier is None:
                advice = "give the group a barrier that nothing else uses: barrier=1"
                GROUP.fail(call=call, group=f"{threads} threads", problem="barrier= is missing", instead=advice)
            advice = "count the threads of a group: threads=128"
            GROUP.fail(call=call, group="a part of the CTA", problem="threads= is missing", instead=advice)
        return self._part(call, threads, barrier)

    def _part(self, call: str, threads: int, barrier: Operand) -> Group:
        check_barrier_threads(threads)
        if threads > self._k.threads:
            rules.BARRIER_WAITS.fail(threads=threads, there=self._k.threads)
        number = as_value(self._k, barrier, s32)
        own = f"barrier {number.constant}" if isinstance(number.constant, int) else "barriers of their own"
        text = f"{threads} threads at {own}"
        fail = partial(GROUP.fail, call=call, group=text)
        owners = self._warps_of(number, threads, fail)
        for each, warps in owners.items():
            check_barrier_id(each)
            owner = self._owners.setdefault(each, _Owner(warps, f"{call} of {text}", caller_location()))
            if owner.warps != warps:
                fail(
                    problem=f"barrier {each} is for {_shown(owner.warps)} at {owner.place}, and {_shown(warps)} come",
                    instead="give each group a barrier of its own number",
                )
        note(self._k, partial(GROUP.diagnose, call=call, group=text, problem="only some come", instead=_WHOLE))
        first = min(warps.start for warps in owners.values())
        cells = max(warps.stop for warps in owners.values()) - first
        key = tuple((each, warps.start) for each, warps in owners.items())
        return Group(
            threads // WARP_SIZE,
            cells,
            lambda: self._warp() - first,
            lambda: self._barrier.sync(number, threads),
            self._shared.setdefault(key, _Shared(self._memory)),
            f"group_{min(owners)}",
        )

    def _warps_of(self, number: Value, threads: int, fail: Callable[..., NoReturn]) -> dict[int, range]:
        """The warps that come to each barrier."""
        here, numbers = self._k.execution.around(), self._k.execution.numbers(number.ir)
        enter = "choose warps by their number, k.warp_id() or k.warpgroup_id(), in a block around it"
        if here is None:
            fail(problem="which threads come is not known when the kernel is built", instead=enter)
        if numbers is None:
            advice = "compute it from the number of the warp: barrier=1 + k.warpgroup_id()"
            fail(problem="the number of the barrier is not known when the kernel is built", instead=advice)
        of: dict[int, list[int]] = {}
        for thread in here.exact:
            of.setdefault(numbers[thread], []).append(thread)
        if not here.is_exact:
            fail(problem="one lane of each warp comes", instead=_WHOLE)
        count = next((len(comers) for comers in of.values() if len(comers) != threads), threads)
        if count != threads and self._k.execution.here() is None:
            fail(problem=f"which of {count} threads come is not known when the kernel is built", instead=enter)
        if count != threads:
            fail(problem=f"{count} threads come", instead=_WHOLE)
        groups = {each: range(comers[0] // WARP_SIZE, comers[-1] // WARP_SIZE + 1) for each, comers in of.items()}
        first = min(warps.start for warps in groups.values())
        for warps in groups.values():
            if len(warps) * WARP_SIZE != threads or (warps.start - first) * WARP_SIZE % threads:
                problem = f"{_shown(warps)} come, of which not each is in the group"
                if len(warps) * WARP_SIZE == threads:
                    problem = f"groups begin at warps {first} and {warps.start}, not whole groups apart"
                fail(problem=problem, instead="let the warps of a group follow one another, and group after group")
        return groups

    def _warp(self) -> Value:
        return self._threads.thread_id("linear") // WARP_SIZE

    def faults(self) -> list[Diagnostic]:
        """cta.group for each barrier of a group that another place uses for another number of threads."""
        faults: list[Diagnostic] = []
        if not self._owners:
            return faults
        for block in self._k.machine.blocks.values():
            for instr in block.instructions:
                barrier = None if instr.row is None else instr.row.semantics.barrier
                if barrier is None or barrier.scope is not Scope.CTA:
                    continue
                number = instr.operands.get("id", "0")
                owner = self._owners.get(int(number)) if number.isdigit() else None
                count = instr.operands.get("threads", str(self._k.threads))
                if owner is None or not count.isdigit() or int(count) == len(owner.warps) * WARP_SIZE:
                    continue
                problem = f"barrier {number} is used for {count} threads elsewhere"
                call, group = owner.text.split(" of ", 1)
                said = GROUP.diagnose(
                    at=instr.location,
                    call=call,
                    group=group,
                    problem=problem,
                    instead=f"give the group a number that nothing else uses; it is at {owner.place}",
                )
                faults += [] if said in faults else [said]
        return faults


def _shown(warps: range) -> str:
    return f"warp {warps.start}" if len(warps) == 1 else f"warps {warps.start} to {warps.stop - 1}"


def note(k: Core, parted: Callable[..., Diagnostic]) -> None:
    """Let `parted` say what is wrong where only some threads come to the user's line."""
    if (at := caller_location()) is not None:
        k.cta_wide.setdefault((at.file, at.line), parted)


def check_all_come(k: Core, call: str) -> None:
    """Raises cta.threads where only a part of the CTA comes here for certain."""
    note(k, partial(THREADS.diagnose, call=call, count="only some", threads=k.threads))
    here = k.execution.here()
    if here is not None and here.count is not None and here.count < k.threads:
        THREADS.fail(call=call, count=here.count, threads=k.threads)


def of_whole_calls(k: Core, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The same, with cta.threads or cta.group for what parts the threads of a call that they execute together.

    Their instructions are not the author's, and the advice on a warp leads to the next mistake.
    """
    reported: list[Diagnostic] = []
    for each in diagnostics:
        at = each.location
        parted = None if at is None or each.rule not in _PARTINGS else k.cta_wide.get((at.file, at.line))
        if parted is None:
            reported.append(each)
            continue
        whole = parted(at=at, notes=each.notes)
        reported += [whole] if whole not in reported else []
    return reported
