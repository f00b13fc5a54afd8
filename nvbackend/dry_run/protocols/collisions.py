"""Words that threads load, change and store at places that data decides: where there are fewer words than threads."""

from __future__ import annotations

from typing import Any

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ORDER
from nvbackend.dry_run.order.footprints import Access
from nvbackend.dry_run.order.naming import in_rounds, instruction, line, touch_of
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step


@dataclass(frozen=True, slots=True)
class _Change:
    """What the lanes of one warp change: somewhere in these bytes, in an event of the warp."""

    warp: int
    event: int
    threads: int
    places: range


class Collisions:
    """Two threads change one word, whatever the data, where more of them come than there are words in their range."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[tuple[int, int], list[_Change]] = {}

    def note(self, step: Step, access: Access) -> None:
        """A warp stores a sum of what it has loaded from the same place. What it comes after counts no more."""
        if not access.bytes:
            return
        state, part = self._state, access.part
        warp = state.warp(step)
        memory, inside = state.memory.extents.allocation(part.instr, part.operand)
        places = range(max(part.first, inside.start), min(part.end, inside.stop))
        if memory is None or not places:
            return
        kept = self._kept.setdefault((id(step.instr), step.cta), [])
        mine = _Change(warp.index, warp.event, step.lanes.bit_count(), places)
        others = [one for one in kept if one.warp != warp.index and not warp.seen >> one.event & 1]
        kept[:] = [*others, mine]
        for several in ([mine], kept):
            threads, words = sum(one.threads for one in several), _words(several, access.bytes)
            if threads > words:
                self._report(step, access, several, (threads, words))
                return

    def _report(self, step: Step, access: Access, several: list[_Change], counted: tuple[int, int]) -> None:
        touch = touch_of(step.instr, access.part.operand)
        name = self._state.memory.names.name(touch, access.part.first) if touch is None else touch.object.name
        who, (threads, words) = f"{instruction(step.instr)} of warp", counted
        warps = [(step.cta, one.warp) for one in several]
        self._state.findings.add(
            *(ORDER, name, rules.TWO_WRITERS, step.instr, ()),
            holds=lambda: not any(self._state.atomics.decides(one) for one in warps),
            now=in_rounds(step.rounds()), memory=name,
            second=f"{who} {step.warps[0]}", first=f"{who} {several[0].warp}",
            **_lost(step, threads, words),
        )  # fmt: skip


def lost_sums(step: Step, access: Access) -> dict[str, Any]:
    """What is said of lanes that store sums of what they loaded where several store to one word; nothing if none do."""
    addresses = access.part.addresses
    words = 1 if isinstance(addresses, int) else len(set(addresses))
    return _lost(step, step.lanes.bit_count(), words) if words < step.lanes.bit_count() else {}


def _lost(step: Step, threads: int, words: int) -> dict[str, Any]:
    counted = f"are {words} words" if words > 1 else "is one word"
    return {
        "reason": f"{threads} threads change a word each, which they load before, and there {counted}",
        "fix": "let one thread write each byte, or "
        f'add by an atomic in {line(step.instr)}: address.atomic("add", value)',
    }


def _words(several: list[_Change], size: int) -> int:
    """The words in which any of the changes may be."""
    return len({place // size for one in several for place in range(one.places.start, one.places.stop, size)})
