"""The shared memory of all CTAs of a run: accesses in the order of the steps, and those that nothing orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nvbackend.dry_run.order.events import Warp
from nvbackend.dry_run.order.extents import Extents, Outside
from nvbackend.dry_run.order.footprints import Access
from nvbackend.dry_run.order.lanes import LaneShadow
from nvbackend.dry_run.order.record import Part, Record
from nvbackend.dry_run.order.shadow import Records, Shadow
from nvbackend.dry_run.order.words import Names, touch_of
from nvbackend.isel.machine.function import MachineInstr

Conflict = Callable[[Record | None, Record, Part, int, int, str], None]
"""What is told of two accesses: the earlier (None: nothing wrote there), the later and its part, CTA, address, why."""
Left = Callable[[Record, Part, Outside], None]
"""What is told of an access that leaves its allocation."""
UNORDERED, UNFENCED, UNWRITTEN = "unordered", "unfenced", "unwritten"


class Memory:
    """All shadows. Accesses of a warp are looked at when it tells or learns something: until then nothing changes."""

    def __init__(self, ctas: int, extents: Extents, conflict: Conflict, left: Left) -> None:
        self.records = Records()
        self.names = Names()
        self.extents = extents
        self.complete = True
        """Whether all writes were seen, so that what nobody wrote is known to be unwritten."""
        self.writes = False
        """Whether anything was written: in a part of a kernel, others fill the memory."""
        self._shadows = [Shadow(max(extents.stop, 16), self.records) for _ in range(ctas)]
        self.lanes = [LaneShadow(extents.stop) for _ in range(ctas)]
        self._conflict = conflict
        self._left = left
        self._open: dict[int, dict[tuple[int, bool, bool, int], Record]] = {}

    def access(
        self, warp: Warp, instr: MachineInstr, rounds: Callable[[], str], cta: int, access: Access, hidden: int = 0
    ) -> None:
        """A warp reads or writes, in lanes that do not know of the events `hidden`."""
        part = Part(instr, access.addresses, access.size, access.operand)
        atomic = instr.semantics.atomic
        mine = self._open.setdefault(id(warp), {})
        record = mine.get((cta, access.writes, atomic, hidden))
        if record is None:
            record = Record(warp.event, warp.cta, warp.index, access.writes, rounds(), atomic=atomic, hidden=hidden)
            mine[cta, access.writes, atomic, hidden] = record
            warp.used = True
        outside = self.extents.leaves(instr, access.operand, access.addresses, access.size)
        if outside is not None:
            self._left(Record(record.event, warp.cta, warp.index, access.writes, rounds()), part, outside)
            return
        self._learn(part)
        record.parts.append(part)

    def flush(self, warp: Warp) -> None:
        """Look at what the warp has accessed."""
        mine = self._open.pop(id(warp), None)
        known = warp.seen | 1 << warp.event
        empty: list[tuple[Record, int, Part]] = []
        for (cta, writes, *_), record in sorted(mine.items(), key=lambda one: one[0][1]) if mine else ():
            if not record.parts:
                continue
            if writes:
                self._write(record, cta, known & ~record.hidden)
            else:
                empty += [(record, cta, part) for part in self._read(record, cta, known & ~record.hidden, None)]
        for record, cta, part in empty:
            self._look_unwritten(record, cta, part)

    def issue(self, record: Record, known: int, fenced: int, touched: Iterable[tuple[int, Part]]) -> None:
        """An asynchronous operation that has seen `known` accesses memory of these CTAs."""
        for cta, part in touched:
            outside = self.extents.leaves(part.instr, part.operand, part.addresses, part.size)
            if outside is not None:
                self._left(record, part, outside)
                continue
            self._learn(part)
            here = Record(
                record.event, record.cta, record.warp, record.writes, record.rounds, record.engine, record.atomic,
                record.proxy, record.barrier, record.phase, record.guard, parts=[part],
            )  # fmt: skip
            if record.writes:
                self._write(here, cta, known)
            else:
                for empty in self._read(here, cta, known, fenced if record.proxy else None):
                    self._look_unwritten(here, cta, empty)

    def _look_unwritten(self, record: Record, cta: int, part: Part) -> None:
        """A read of what nothing has written, where that is known: programs that fill nothing are parts of others.

        Operations of the async proxy read whole tiles, of which a right kernel may fill and use a part.
        """
        if not (self.complete and self.writes):
            return
        shadow = self._shadows[cta]
        address = shadow.unwritten(part.addresses, part.size)
        if address is None:
            return
        if record.proxy and not all(shadow.is_empty(one, part.size) for one in part.tile or (part.addresses,)):
            return
        self._conflict(None, record, part, cta, address, UNWRITTEN)

    def _learn(self, part: Part) -> None:
        touch = touch_of(part.instr, part.operand)
        if touch is not None:
            self.names.learn(touch, _first(part.addresses))

    def _read(self, record: Record, cta: int, known: int, fenced: int | None) -> list[Part]:
        """Look at a read: the parts of it that nothing has written, as yet."""
        shadow, number = self._shadows[cta], self.records.add(record)
        empty: list[Part] = []
        for part in record.parts:
            shadow.refine(part.addresses, part.size)
        for part in record.parts:
            places = shadow.places(part.addresses, part.size)
            for writer, address in shadow.read(places, number, known | 1 << record.event):
                if writer:
                    earlier = self.records.records[writer]
                    if earlier is not None and not (earlier.atomic and record.atomic):
                        self._conflict(earlier, record, part, cta, address, UNORDERED)
                else:
                    empty.append(part)
            if fenced is not None:
                self._unfenced(record, part, cta, places, known & ~fenced)
        return empty

    def _unfenced(self, record: Record, part: Part, cta: int, places: Any, hidden: int) -> None:
        """Generic writes that come before, and that no proxy fence shows to the async proxy."""
        for writer, address in self._shadows[cta].writers(places):
            earlier = self.records.records[writer]
            if earlier is not None and not earlier.engine and hidden >> earlier.event & 1:
                self._conflict(earlier, record, part, cta, address, UNFENCED)

    def _write(self, record: Record, cta: int, known: int) -> None:
        shadow, number = self._shadows[cta], self.records.add(record)
        for part in record.parts:
            shadow.refine(part.addresses, part.size)
        self.writes |= record.parts[0].instr.semantics.tensor_memory is None
        for part in record.parts:
            places = shadow.places(part.addresses, part.size)
            for one, address in shadow.write(places, number, known | 1 << record.event):
                earlier = self.records.records[one]
                if earlier is None or (earlier.atomic and record.atomic) or _alike(earlier, record, part):
                    continue
                self._conflict(earlier, record, part, cta, address, UNORDERED)

    def shift(self, cta: int) -> int:
        """The logarithm of the bytes of a granule of a CTA."""
        return self._shadows[cta].shift

    def where(self, part: Part, address: int) -> str:
        """What the program calls the memory there."""
        return self.names.name(touch_of(part.instr, part.operand), address)


def _alike(earlier: Record, record: Record, part: Part) -> bool:
    """The same store of several threads to one place, or two copies of a warp: it may not matter which is last."""
    if not earlier.writes:
        return False
    if earlier.engine and record.engine and not earlier.proxy and not record.proxy and earlier.warp == record.warp:
        return True
    others = not earlier.proxy or earlier.cta != record.cta
    return others and any(one.instr is part.instr for one in earlier.parts)


def _first(addresses: Any) -> int:
    return addresses if isinstance(addresses, int) else int(addresses.min())
