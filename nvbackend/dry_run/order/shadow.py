"""The last writer of each byte of a CTA's shared memory, and its readers since.

Bytes are kept in granules, which begin at 16 bytes and become smaller when something smaller is accessed.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence

from nvbackend.dry_run.order.granules import Granules, Kept, Pages, granules, numbers_of
from nvbackend.dry_run.order.record import Part, Record

_LARGEST = 4
"""The logarithm of the bytes of a granule at first."""


class Records:
    """All records of a run by number, from 1 on, and the sets of them that read a byte, by number too."""

    def __init__(self) -> None:
        self.records: list[Record | None] = [None]
        self.loose: list[Record] = []
        """Those at places that data decides."""
        self.sets: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}

    def add(self, record: Record) -> int:
        """The number of a new record."""
        self.records.append(record)
        return len(self.records) - 1

    def number(self, record: Record) -> int | None:
        """The number of a record; None where it is not among them. Late ones are found first."""
        return next((at for at in range(len(self.records) - 1, 0, -1) if self.records[at] is record), None)

    def beside(self, old: int, reader: int, number: int) -> int:
        """The set `old` with `number` too, if `reader` is in it."""
        return self._set((*self.sets[old], number) if reader in self.sets[old] else self.sets[old])

    def instead(self, old: int, reader: int, number: int) -> int:
        """The set `old` with `number` in place of `reader`, if that is in it."""
        if reader not in self.sets[old]:
            return old
        return self._set((*(one for one in self.sets[old] if one not in (reader, number)), number))

    def _set(self, made: tuple[int, ...]) -> int:
        found = self._numbers.get(made)
        if found is None:
            found = self._numbers[made] = len(self.sets)
            self.sets.append(made)
        return found

    def reads_before(self, read: Record, write: Record) -> Iterator[Record]:
        """What the warp of a read had read before, since the write that a later one replaces; the latest first."""
        for one in reversed(self.records[1 : self.records.index(read)]):
            assert one is not None
            if one.writes and one.event == write.replaced:
                return
            if not one.writes and (one.cta, one.warp) == (read.cta, read.warp):
                yield one

    def with_reader(self, old: int, number: int, known: int) -> int:
        """The set `old` with one more reader, without those that it follows: a wait for it is a wait for them."""
        records, event = self.records, self.records[number].event  # type: ignore[union-attr]
        kept = tuple(
            one
            for one in self.sets[old]
            if not known >> records[one].event & 1 and records[one].event != event  # type: ignore[union-attr]
        )
        return self._set((*kept, number))


class Shadow:
    """The shared memory of one CTA. Conflicts are the record of the earlier access and the address."""

    def __init__(self, size: int, records: Records, shift: int = _LARGEST) -> None:
        self.shift = shift
        self.size = size
        self._records = records
        self._writers = Kept()
        self._readers = Kept()

    def granules(self, parts: Sequence[Part]) -> Granules:
        """The granules of several accesses, which become small enough for all of them."""
        for part in parts:
            while part.bits & ((1 << self.shift) - 1):
                self.shift -= 1
                self._writers.halve()
                self._readers.halve()
        return Granules.united([part.granules(self.shift) for part in parts])

    def read(self, places: Granules, number: int, known: int) -> Iterator[tuple[int, int]]:
        """The writers that a read does not come after, 0 where nothing has written. `known` has the own event."""
        for one, part in self._writers.there(places.pages):
            if not one or not known >> self._records.records[one].event & 1:  # type: ignore[union-attr]
                yield one, places.first(part)
        self._note_read(places, number, (known,))

    def read_in_order(self, places: Granules, number: int, known: Sequence[int], hidden: int) -> bool:
        """Read, if all writes are known to each of those who read the same record, and none is of the `hidden` events.

        False also where the readers before it matter to some of them and not to others.
        """
        if not self._comes_after(places, functools.reduce(operator.and_, known), hidden):
            return False
        return self._note_read(places, number, known)

    def _comes_after(self, places: Granules, known: int, hidden: int) -> bool:
        """Whether all bytes were written, by `known` events; those of generic writes are not `hidden`."""
        for one, _ in self._writers.there(places.pages):
            writer = self._records.records[one]
            if writer is None or not known >> writer.event & 1:
                return False
            if hidden and hidden >> writer.event & 1 and writer.is_generic:
                return False
        return True

    def _note_read(self, places: Granules, number: int, known: Sequence[int]) -> bool:
        there = self._readers.there(places.pages)
        made = [self._records.with_reader(one, number, known[0]) for one, _ in there]
        for other in known[1:]:
            if made != [self._records.with_reader(one, number, other) for one, _ in there]:
                return False
        for one, (_, part) in zip(made, there, strict=True):
            self._readers.put(part, one)
        return True

    def unwritten(self, places: Granules, soon: Sequence[Granules] = ()) -> int | None:
        """The first byte that nothing has written, nor will be by what is written `soon`."""
        missing = self._writers.without(places.pages)
        for one in soon:
            missing = {page: left for page, bits in missing.items() if (left := bits & ~one.pages.get(page, 0))}
        return places.first(missing) if missing else None

    def is_empty(self, places: Granules) -> bool:
        """Whether nothing has written any byte."""
        return not self._writers.any(places.pages)

    def last_unread(self, places: Granules) -> int:
        """The number of the one writer of all bytes, which nothing has read since; 0 where there is none."""
        writers = self._writers.there(places.pages)
        return writers[0][0] if len(writers) == 1 and not self._readers.any(places.pages) else 0

    def unread(self) -> Iterator[tuple[int, Pages, Pages]]:
        """Who wrote what is there now, all of that, and what of it nothing has read since."""
        for number, pages in self._writers.every():
            yield number, pages, self._readers.without(pages)

    def readers(self, pages: Pages) -> set[int]:
        """The records that have read these granules since they were written."""
        return {reader for one, _ in self._readers.there(pages) for reader in self._records.sets[one]}

    def is_written(self, address: int) -> bool:
        """Whether something has written a byte."""
        return self._writers.any(granules(address, 1 << self.shift, self.shift).pages)

    def writers(self, places: Granules) -> list[tuple[int, int]]:
        """Who wrote the bytes last."""
        return [(one, places.first(part)) for one, part in self._writers.there(places.pages) if one]

    def accesses(self, places: Granules, *, readers: bool) -> Iterator[tuple[Sequence[int], Record]]:
        """Who wrote each granule last, and with `readers` who has read it since: the addresses, and the access."""
        records = self._records.records
        for one, part in self._writers.there(places.pages):
            record = records[one]
            if record is not None:
                yield self._addresses(part), record
        for one, part in self._readers.there(places.pages) if readers else ():
            for reader in self._records.sets[one]:
                record = records[reader]
                if record is not None:
                    yield self._addresses(part), record

    def _addresses(self, pages: Pages) -> Sequence[int]:
        return [number << self.shift for number in numbers_of(pages)]

    def write(self, places: Granules, number: int, known: int) -> Iterator[tuple[int, int]]:
        """The readers and writers that a write does not come after."""
        yield from self.before_write(places, number, known)
        self.note_write(places, number)

    def before_write(self, places: Granules, number: int, known: int) -> Iterator[tuple[int, int]]:
        """The readers and writers that a write does not come after; nothing is written yet."""
        records, mine = self._records.records, self._records.records[number]
        assert mine is not None
        writers = [(one, part) for one, part in self._writers.there(places.pages) if one]
        for one, _ in writers:
            mine.replaced = max(mine.replaced, records[one].event)  # type: ignore[union-attr]
        for one, part in self._readers.there(places.pages):
            for reader in self._records.sets[one]:
                mine.readers.add((records[reader].cta, records[reader].warp))  # type: ignore[union-attr]
                if not known >> records[reader].event & 1:  # type: ignore[union-attr]
                    yield reader, places.first(part)
        for one, part in writers:
            if not known >> records[one].event & 1:  # type: ignore[union-attr]
                yield one, places.first(part)

    def note_write(self, places: Granules, number: int) -> None:
        """The bytes are written."""
        self._writers.put(places.pages, number)
        self._readers.put(places.pages, 0)

    def tell_apart(self, places: Granules, old: int, number: int, *, stays: bool = True) -> None:
        """What the record `old` accessed at `places`, and nothing has written since, the record `number` did.

        Of what is read, `old` stays a reader, too, if it is not said otherwise.
        """
        for one, part in self._writers.there(places.pages):
            if one == old:
                self._writers.put(part, number)
        made = self._records.beside if stays else self._records.instead
        for one, part in self._readers.there(places.pages):
            self._readers.put(part, made(one, old, number))
