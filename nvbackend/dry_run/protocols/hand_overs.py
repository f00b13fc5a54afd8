"""Tensor memory from thread to thread: whose operations a commit tracks, and the fences on both sides of a barrier.

A load or store is over for its own warp when that has waited for it. For another warp a `before_thread_sync` has to
come after that, before what lets the other go on, and an `after_thread_sync` of the other one after its wait.
"""

from __future__ import annotations

from typing import Any

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING, EARLY
from nvbackend.dry_run.order.naming import after_rounds, crew, in_rounds, instruction, line
from nvbackend.dry_run.order.record import Record
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step
from nvbackend.intrinsics.row.semantics import WARP_SIZE, Completion, FenceOf
from nvbackend.isel.machine.function import TMEM
from nvbackend.isel.protocols.groups.rules import OTHER_THREADS

_BY_THREADS = (Completion.LOAD_WAIT, Completion.STORE_WAIT)
_Warp = tuple[int, int]
"""A CTA and a warp of it."""


class HandOvers:
    """The loads, stores and fences of all warps."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._events: dict[_Warp, int] = {}
        """The loads and stores of each warp."""
        self._all = self._products = 0
        self._unfenced: dict[_Warp, int] = {}
        """By warp: loads and stores that no fence of it came after yet."""
        self._fences: dict[int, int] = {}
        """By the event of a load or store: the first fence of each warp after it."""
        self._let_in = dict.fromkeys(state.warps, 0)
        """What each warp had seen at its last `after_thread_sync`."""

    def note(self, step: Step, event: int) -> None:
        """An operation on tensor memory."""
        if step.instr.semantics.issues in _BY_THREADS:
            key, bit = (step.cta, step.warps[0]), 1 << event
            self._events[key] = self._events.get(key, 0) | bit
            self._all |= bit
            for warp in self._state.warps:
                self._unfenced[warp] = self._unfenced.get(warp, 0) | bit
        elif step.instr.semantics.issues is Completion.COMMIT:
            self._products |= 1 << event

    def fence(self, step: Step, of: FenceOf) -> None:
        """A tcgen05.fence of some warp."""
        for warp in self._state.warps_of(step):
            key = warp.cta, warp.index
            if of is FenceOf.AFTER_SYNC:
                self._let_in[key] = warp.seen
                continue
            left = self._unfenced.get(key, 0)
            over = left & warp.seen
            if over:
                self._unfenced[key] = left & ~over
                mark = warp.mark()
                while over:
                    bit = over & -over
                    self._fences[bit] = self._fences.get(bit, 0) | mark
                    over ^= bit

    def of_others(self, record: Record, step: Step) -> int:
        """The events of loads and stores of other warps than that of an access; of a load or store, of products too."""
        who = record.cta, record.warp
        loads = self._all & ~self._events.get(who, 0)
        if step.instr.semantics.issues not in _BY_THREADS:
            return loads
        return loads | self._products & ~self._state.tensor_issued[who].of_all

    def judge(self, earlier: Record, record: Record, step: Step, known: int, column: int) -> None:
        """An access that comes after another warp's load or store: whether both fences are between them."""
        frees = step.instr.semantics.tensor_memory is not None  # the verifier looks at these
        by_commit = self._products >> earlier.event & 1  # which is a fence before, too
        if frees or not (by_commit or self._all >> earlier.event & 1):
            return
        first = earlier.parts[0].instr
        values: dict[str, Any] = {
            "first": f"{instruction(first)} of {crew(first, earlier.warp)}{after_rounds(earlier.rounds)}",
            "second": f"{instruction(step.instr)} of {crew(step.instr, record.warp)}",
            "access": "writes" if earlier.writes else "reads", "column": column,
        }  # fmt: skip
        if not by_commit and not known & self._fences.get(1 << earlier.event, 0):
            self._state.findings.add(
                *(EARLY, TMEM, rules.TENSOR_FENCE_BEFORE, first, ((values["second"], step.instr.location),)),
                since=earlier.event, line=line(first), warp=earlier.warp, **values,
            )  # fmt: skip
        elif not self._let_in[record.cta, record.warp] >> earlier.event & 1:
            self._state.findings.add(
                *(EARLY, TMEM, rules.TENSOR_FENCE_AFTER, step.instr, ((values["first"], first.location),)),
                since=earlier.event, now=in_rounds(record.rounds), line=line(step.instr), **values,
            )  # fmt: skip


def tracked(state: State, step: Step) -> int:
    """The events that a commit of tcgen05 waits for: operations of its own thread. A mistake where others are alone."""
    warp = step.warps[0]
    issued = state.tensor_issued[step.cta, warp]
    events = issued.tracked(step.lanes)
    if not events and issued.first:
        (lanes, first), *_ = issued.first.items()
        state.findings.add(
            *(ACCOUNTING, "commit", OTHER_THREADS, step.instr, (("it is issued here", first.location),)),
            holds=lambda: not issued.tracked(step.lanes), completion=f"the {instruction(step.instr)}",
            others=_called(step.lanes, warp), issue=f"the {instruction(first)} of {line(first)}",
            issuers=_called(lanes, warp),
        )  # fmt: skip
    return events


def _called(lanes: int, warp: int) -> str:
    """Some lanes of a warp. A run elects the last one."""
    if lanes.bit_count() > 1:
        return f"several lanes of warp {warp}"
    lane = lanes.bit_length() - 1
    return f"the elected lane of warp {warp}" if lane == WARP_SIZE - 1 else f"lane {lane} of warp {warp}"
