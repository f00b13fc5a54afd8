"""The shared memory of all CTAs of a run: accesses in the order of the steps, and those that nothing orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from nvbackend.dry_run.order.events import Known, Warp
from nvbackend.dry_run.order.extents import Extents, Outside
from nvbackend.dry_run.order.footprints import Access
from nvbackend.dry_run.order.granules import Granules, Pages, granules
from nvbackend.dry_run.order.lanes import LaneShadow
from nvbackend.dry_run.order.naming import Names, touch_of
from nvbackend.dry_run.order.record import Part, Record, is_of_matrix
from nvbackend.dry_run.order.shadow import Records, Shadow
from nvbackend.dry_run.order.somewhere import Somewhere, Somewheres, earlier_of
from nvbackend.dry_run.order.turns import Turns
from nvbackend.dry_run.order.unmet import Own, Unmet, Untold
from nvbackend.dry_run.when import When
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.machine.function import MachineInstr

Conflict = Callable[[Record | None, Record, Part, int, int, str], None]
"""Reports two accesses: the earlier (None: the memory is unwritten), the later, its part, CTA, address, why."""
Left = Callable[[Record, Part, Outside], None]
"""The arguments of a report on an access that leaves its allocation."""
UNORDERED, NEEDED, UNFENCED, UNWRITTEN, UNMET = "unordered", "needed", "unfenced", "unwritten", "unmet"
"""NEEDED is a write that comes after a read of what nothing else has written; UNMET a read of what its own warp alone
may have stored, at places that data decides, and its lanes have not met since."""
SWIZZLED = "swizzled"


class Memory:
    """All shadows. Accesses of a warp are checked when it synchronises: until then nothing changes."""

    def __init__(self, ctas: int, extents: Extents, conflict: Conflict, left: Left) -> None:
        self.records = Records()
        self.names = Names()
        self.extents = extents
        self.complete = True
        """Whether all writes were seen, so that memory without a write is known to be unwritten."""
        self.writes = False
        """Whether anything was written: in a part of a kernel, others fill the memory."""
        self._early: list[tuple[Record, Part, int, int]] = []
        self.unwritten: list[tuple[Record, Part]] = []
        """Reads of what nothing had written before."""
        """Reads of what was unwritten when nothing was written yet: record, part, CTA, address."""
        self._shadows = [Shadow(max(extents.stop, 16), self.records) for _ in range(ctas)]
        self.lanes = [LaneShadow(extents.stop) for _ in range(ctas)]
        self._somewheres = Somewheres()
        self._maybe: list[set[range]] = [set() for _ in range(ctas)]
        """The bytes of each CTA that may be written: some access wrote some of them."""
        self._spans: set[int] = set()
        """The patterns of the swizzles by which copies have written."""
        self._loose: dict[int, list[tuple[Record, int, bool]]] = {}
        self._conflict = conflict
        self._left = left
        self._open: dict[int, dict[tuple[int, ...], Record]] = {}
        self._unmet: dict[int, Unmet] = {}
        self._turns: dict[int, Turns] = {}

    def access(
        self, warp: Warp, rounds: Callable[[], When], cta: int, access: Access, lanes: int, hidden: int = 0
    ) -> None:
        """Lanes of a warp read or write, which do not know about the events `hidden`."""
        part, atomic = access.part, access.part.instr.semantics.atomic
        mine, key = self._open.setdefault(id(warp), {}), (cta, access.writes, atomic, hidden)
        record = mine.get(key)
        if record is None:
            record = Record(warp.event, warp.cta, warp.index, access.writes, rounds(), atomic=atomic, hidden=hidden)
            mine[key] = record
            warp.used = True
        if not part.is_inside:
            outside = self.extents.leaves(part)
            if outside is not None:
                self._left(Record(record.event, warp.cta, warp.index, access.writes, rounds()), part, outside)
                return
            self._learn(part)
        record.parts.append(part)
        self._turns_of(warp).note(cta, part, writes=access.writes)
        if part.instr.row is None:
            self._unmet.setdefault(id(warp), Unmet()).accesses.append(Own(record, cta, part, lanes))

    def met(self, warp: Warp) -> None:
        """The lanes of a warp have met: what each did before comes before what any does from here on."""
        if self._unmet:
            self._unmet.pop(id(warp), None)
        self.may_have_met(warp)

    def may_have_met(self, warp: Warp) -> None:
        """The lanes of a warp have met, or have waited for what each of them came to."""
        if warp.used and (turns := self._turns.get(id(warp))) is not None:
            turns.meet()

    def _turns_of(self, warp: Warp) -> Turns:
        found = self._turns.get(id(warp))
        if found is None:
            found = self._turns[id(warp)] = Turns()
        return found

    def tells(self, warp: Warp, lanes: int, instr: MachineInstr) -> int:
        """What these lanes tell of their own accesses, beside what their warp does: bits of events.

        They arrive at an mbarrier now, or issue an operation; of what other lanes did since all met, they cannot tell.
        """
        unmet = self._unmet.get(id(warp))
        if unmet is None:
            return 0
        if instr.semantics.tracks is None:
            self._set_apart(warp, unmet.untold(warp, lanes), instr)
        return unmet.tell(warp, lanes)

    def _set_apart(self, warp: Warp, untold: Iterable[Untold], told: MachineInstr) -> None:
        """Give accesses of which `told` does not tell events of their own."""
        mine = self._open.get(id(warp), {})
        still_open = {id(one) for one in mine.values()}
        for one in untold:
            record, cta, part = one.access.record, one.access.cta, one.access.part
            if part not in record.parts:
                continue
            access, kept = one.access, () if one.own is None else (one.own,)
            if access.origin is not None:
                warp.narrow(access.lanes, one.lanes, one.event)
                self._give_back(access.origin, record, part, kept, cta, is_open=id(record) in still_open)
                record.parts.append(one.other)
            elif id(record) in still_open:
                warp.set_apart(one.lanes, one.event)
                record.parts.remove(part)
                record.parts += kept
                key = (cta, record.writes, record.atomic, record.hidden, one.event)
                access.record = mine.setdefault(key, replace(record, event=one.event, parts=[], untold=told))
                access.record.parts.append(one.other)
            else:
                warp.set_apart(one.lanes, one.event)
                access.record = replace(record, event=one.event, parts=[one.other], untold=told)
                self._tell_apart(access.record, record, cta)
            if id(record) in still_open:
                self._turns_of(warp).divide(cta, part, (*kept, one.other), writes=record.writes)
            access.origin, access.part, access.lanes = access.origin or record, one.other, one.lanes

    def _give_back(
        self, origin: Record, record: Record, part: Part, kept: Sequence[Part], cta: int, *, is_open: bool
    ) -> None:
        """What lanes tell of that were set apart is of the record again that it was before."""
        record.parts.remove(part)
        if is_open:
            origin.parts += kept
            return
        shadow, old, number = self._shadows[cta], self.records.number(record), self.records.number(origin)
        if old is not None and number is not None:
            shadow.tell_apart(shadow.granules(kept), old, number, stays=False)

    def _tell_apart(self, others: Record, record: Record, cta: int) -> None:
        """Accesses of `record`, which its warp has closed, are `others`."""
        shadow, number = self._shadows[cta], self.records.number(record)
        if number is not None:
            shadow.tell_apart(shadow.granules(others.parts), number, self.records.add(others))

    def access_somewhere(
        self, warp: Warp, rounds: Callable[[], When], cta: int, access: Access, lanes: int, swaps: bool
    ) -> bool:
        """A warp reads or writes a part of these bytes, within its allocation. Returns whether they can be followed."""
        instr, part = access.part.instr, access.part
        memory, inside = self.extents.allocation(instr, part.operand)
        start, stop = max(part.first, inside.start), min(part.end, inside.stop)
        least = Part(instr, part.first, 1, part.operand)
        if memory is not None and part.first >= inside.stop and (outside := self.extents.leaves(least)) is not None:
            self._left(Record(warp.event, warp.cta, warp.index, access.writes, rounds()), least, outside)
            return True
        if start >= stop or (memory is None and part.end > inside.stop):
            return False
        atomic = instr.semantics.atomic
        before = frozenset(id(one.instr) for each in self._open.get(id(warp), {}).values() for one in each.parts)
        record = Record(
            warp.event, warp.cta, warp.index, access.writes, rounds(), atomic=atomic, later_than=before
        )  # fmt: skip
        record.parts.append(Part(instr, start, stop - start, part.operand))
        mine = self._loose.setdefault(id(warp), [])
        if not any(one.parts[0].instr is instr and one.writes == access.writes for one, *_ in mine):
            fills = access.writes and (swaps or not atomic)
            mine.append((record, cta, fills))
            scattered = access.scattered and lanes & lanes - 1 != 0
            self._turns_of(warp).note_somewhere(cta, record, fills=fills, scattered=scattered)
        warp.used = True
        return True

    def flush(self, warp: Warp) -> None:
        """Check what the warp has accessed."""
        mine, turns = self._open.pop(id(warp), None), self._turns.pop(id(warp), None) or Turns()
        known = warp.seen | 1 << warp.event
        loose = self._loose.pop(id(warp), ())
        for record, cta, _ in loose:
            self._look_somewhere(record, cta, turns)
        for (cta, writes, *_), record in sorted(mine.items(), key=lambda one: one[0][1]) if mine else ():
            if not record.parts:
                continue
            seen = (known | 1 << record.event) & ~record.hidden
            if writes:
                self._write(record, cta, seen)
                continue
            for part in self._read(record, cta, seen, None):
                self._look_unwritten(record, cta, part, turns)
        for record, cta, fills in loose:
            self._flush_somewhere(record, cta, known, fills)

    def _flush_somewhere(self, record: Record, cta: int, known: int, fills: bool) -> None:
        part, shadow = record.parts[0], self._shadows[cta]
        self.records.loose.append(record)
        one = Somewhere(record, cta, bytearray(part.size))
        earlier = earlier_of(one, shadow, known)
        if earlier is not None:
            self._conflict(earlier, record, part, cta, part.first, UNORDERED)
        else:
            self._somewheres.keep(one)
        if record.writes:
            self._note_writes()
        if fills:
            self._maybe[cta].add(range(part.first, part.end))

    def _meet_somewhere(self, record: Record, cta: int, known: int) -> None:
        for part in record.parts if self._somewheres else ():
            for one in self._somewheres.met_by(record, part, cta, known):
                self._conflict(one.record, record, part, cta, part.first, UNORDERED)

    def _may_be_written(self, cta: int, part: Part) -> bool:
        return any(part.first < one.stop and one.start < part.end for one in self._maybe[cta])

    def _swizzled(self, record: Record, cta: int) -> None:
        """Copies that wrote with another swizzle. What a map without one brings may be swizzled in global memory."""
        shadow = self._shadows[cta]
        is_one = len(self._spans) < 2
        for part in record.parts:
            if part.swizzle is None or (is_one and (not self._spans or part.swizzle in self._spans)):
                continue
            for writer, address in shadow.writers(part.granules(shadow.shift)):
                earlier = self.records.records[writer]
                written = earlier.parts[0].swizzle if earlier is not None else None
                if earlier is not None and written and written != part.swizzle:
                    self._conflict(earlier, record, part, cta, address, SWIZZLED)

    def issue_write(self, record: Record, known: Known, cta: int, part: Part) -> None:
        """An asynchronous operation that has seen `known` writes memory of a CTA."""
        if not self._is_inside(record, part):
            return
        if record.parts:
            record = _with(record, [part])
        else:
            record.parts.append(part)
        seen, fenced = known
        hidden = seen & ~fenced & ~(1 << record.event) if record.proxy else 0
        if hidden and part.instr.semantics.releases is Scope.THREAD:  # st.async goes by the generic proxy
            shadow = self._shadows[cta]
            shadow.granules(record.parts)
            self._unfenced(record, part, cta, part.granules(shadow.shift), hidden)
        self._write(record, cta, seen)

    def issue_reads(self, record: Record, reads: Sequence[tuple[int, Part, Known]]) -> None:
        """An asynchronous operation reads memory of CTAs, each part after what is known then."""
        several = [one for one in reads if one[1].is_inside or self._is_inside(record, one[1])]
        if len(several) > 1 and len({cta for cta, _, _ in several}) == 1 and self._read_at_once(record, several):
            return
        for cta, part, (known, fenced) in several:
            here = _with(record, [part])
            for empty in self._read(here, cta, known, fenced if record.proxy else None):
                self._look_unwritten(here, cta, empty)

    def _read_at_once(self, record: Record, several: Sequence[tuple[int, Part, Known]]) -> bool:
        """Whether all parts of a read come after all writes, and the same is known of earlier reads."""
        record.parts = [part for _, part, _ in several]
        shadow, event = self._shadows[several[0][0]], 1 << record.event
        every, some, hidden = -1, 0, 0
        for _, _, (known, fenced) in several:
            every, some, hidden = every & known, some | known, hidden | (known & ~fenced)
        places = shadow.granules(record.parts)
        self._swizzled(record, several[0][0])
        self._meet_somewhere(record, several[0][0], every)
        return shadow.read_in_order(
            places, self.records.add(record), (every | event, some | event), hidden if record.proxy else 0
        )

    def _is_inside(self, record: Record, part: Part) -> bool:
        if part.is_inside:
            return True
        outside = self.extents.leaves(part)
        if outside is not None:
            self._left(record, part, outside)
            return False
        self._learn(part)
        return True

    def _look_unwritten(self, record: Record, cta: int, part: Part, turns: Turns | None = None) -> None:
        """A read of what nothing has written before, where that is known. `turns` has the own accesses of the warp.

        Operations of the async proxy read whole tiles, of which a right kernel may fill and use a part.
        """
        if not self.complete or self._may_be_written(cta, part):
            return
        shadow, before = self._shadows[cta], [] if turns is None else turns.written_before(cta, part)
        shadow.granules([part, *before])
        address = shadow.unwritten(part.granules(shadow.shift), [one.granules(shadow.shift) for one in before])
        if address is None:
            return
        whole = [granules(one, part.size, shadow.shift) for one in part.tile or (part.addresses,)]
        if record.proxy and not all(shadow.is_empty(one) for one in whole):
            return
        fills = [] if turns is None else turns.filled_before(cta, part)
        if not fills:
            self._report_unwritten(record, part, cta, address)
        elif all(one.scattered and not one.met for one in fills):
            self._conflict(fills[-1].record, record, part, cta, address, UNMET)

    def _look_somewhere(self, record: Record, cta: int, turns: Turns) -> None:
        """A read at a place that data decides, where nothing has written any of those that it may be."""
        part, shadow = record.parts[0], self._shadows[cta]
        if record.writes or not self.complete or self._may_be_written(cta, part) or turns.may_fill(record):
            return
        if shadow.is_empty(shadow.granules([part])):
            self._report_unwritten(record, part, cta, part.first)

    def _report_unwritten(self, record: Record, part: Part, cta: int, address: int) -> None:
        """Programs that fill nothing are parts of others: a thread's read counts once anything is written, if ever."""
        self.unwritten.append((record, part))
        if self.writes:
            self._conflict(None, record, part, cta, address, UNWRITTEN)
        elif not record.proxy:
            self._early.append((record, part, cta, address))

    def _note_writes(self) -> None:
        """Something is written."""
        self.writes = True
        while self._early:
            self._conflict(None, *self._early.pop(0), UNWRITTEN)

    def _learn(self, part: Part) -> None:
        touch = touch_of(part.instr, part.operand)
        if touch is not None:
            self.names.learn(touch, part.first)
        part.is_inside = True

    def _read(self, record: Record, cta: int, known: int, fenced: int | None) -> list[Part]:
        """Judge a read. Returns the parts of it that nothing has written so far."""
        shadow, number = self._shadows[cta], self.records.add(record)
        known |= 1 << record.event
        hidden = 0 if fenced is None else known & ~fenced & ~(1 << record.event)
        places = shadow.granules(record.parts)
        self._swizzled(record, cta)
        self._meet_somewhere(record, cta, known)
        if shadow.read_in_order(places, number, (known,), hidden):
            return []
        empty: list[Part] = []
        for part in record.parts:
            places = part.granules(shadow.shift)
            for writer, address in shadow.read(places, number, known):
                if writer:
                    earlier = self.records.records[writer]
                    if earlier is not None and not (earlier.atomic and record.atomic):
                        self._conflict(earlier, record, part, cta, address, UNORDERED)
                else:
                    empty.append(part)
            if hidden:
                self._unfenced(record, part, cta, places, hidden)
        return empty

    def _unfenced(self, record: Record, part: Part, cta: int, places: Granules, hidden: int) -> None:
        """Generic writes that come before, and that no proxy fence makes visible to the async proxy."""
        for writer, address in self._shadows[cta].writers(places):
            earlier = self.records.records[writer]
            if earlier is not None and earlier.is_generic and hidden >> earlier.event & 1:
                self._conflict(earlier, record, part, cta, address, UNFENCED)

    def _write(self, record: Record, cta: int, known: int) -> None:
        shadow, number = self._shadows[cta], self.records.add(record)
        known |= 1 << record.event
        if not self.writes and record.parts[0].instr.semantics.tensor_memory is None:
            self._note_writes()
        places = shadow.granules(record.parts)
        self._spans |= {part.swizzle for part in record.parts if part.swizzle}
        self._meet_somewhere(record, cta, known)
        if not any(shadow.before_write(places, number, known)):
            shadow.note_write(places, number)
            return
        for part in record.parts:
            for one, address in shadow.write(part.granules(shadow.shift), number, known):
                earlier = self.records.records[one]
                if (
                    earlier is None
                    or (earlier.atomic and record.atomic)
                    or _alike(earlier, record, part, address, 1 << shadow.shift)
                ):
                    continue
                needed = not earlier.writes and not shadow.is_written(address)
                self._conflict(earlier, record, part, cta, address, NEEDED if needed else UNORDERED)

    def writers(self, part: Part, cta: int) -> list[Record]:
        """Who wrote the bytes of an access last."""
        shadow = self._shadows[cta]
        places = [granules(one, part.size, shadow.shift) for one in part.tile or (part.addresses,)]
        numbers = {writer: None for one in places for writer, _ in shadow.writers(one)}
        return [record for writer in numbers if (record := self.records.records[writer]) is not None]

    def unread(self, cta: int) -> Iterator[tuple[int, Pages, Pages]]:
        """The numbers of the last writers, what they wrote, and what of it nothing has read since."""
        return self._shadows[cta].unread()

    def readers(self, cta: int, pages: Pages) -> set[int]:
        """The numbers of those who have read these granules."""
        return self._shadows[cta].readers(pages)

    def shift(self, cta: int) -> int:
        """The logarithm of the bytes of a granule of a CTA."""
        return self._shadows[cta].shift

    def where(self, part: Part, address: int) -> str:
        """What the program calls the memory there."""
        return self.names.name(touch_of(part.instr, part.operand), address)


def _with(record: Record, parts: list[Part]) -> Record:
    """The same with these parts."""
    return Record(
        record.event, record.cta, record.warp, record.writes, record.rounds, record.engine, record.atomic,
        record.proxy, record.barrier, record.phase, record.guard, source=record.source, parts=parts,
    )  # fmt: skip


def _alike(earlier: Record, record: Record, part: Part, address: int, size: int) -> bool:
    """Whether both are one store by several threads, or two copies of a warp: their order may not matter.

    `size` bytes at `address` are what both write.
    """
    if not earlier.writes:
        return False
    if earlier.engine and record.engine and not earlier.proxy and not record.proxy and earlier.warp == record.warp:
        return True
    if earlier.source is not None and record.source is not None and earlier.source != record.source:
        return False
    others = not earlier.proxy or earlier.cta != record.cta
    there = [one for one in earlier.parts if one.instr is part.instr and not _is_shifted(one, part)]
    return others and any(one.covers(address, size) for one in there)


def _is_shifted(one: Part, other: Part) -> bool:
    """Whether they are matrices of one store of whole warps, which lie at different places: they hold other numbers."""
    return is_of_matrix(one) and one.addresses != other.addresses
