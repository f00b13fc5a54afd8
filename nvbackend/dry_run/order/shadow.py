"""The last writer of each byte of a CTA's shared memory, and its readers since.

Bytes are kept in granules, which begin at 16 bytes and become smaller when something smaller is accessed.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nvbackend.dry_run.order.record import Part, Places, Record, united

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
        count = (size >> shift) + 1
        self._writers = np.zeros(count, np.int32)
        self._readers = np.zeros(count, np.int32)

    def granules(self, parts: Sequence[Part]) -> Places:
        """The granules of several accesses, which become small enough for all of them."""
        for part in parts:
            while part.bits & ((1 << self.shift) - 1):
                self.shift -= 1
                self._writers = np.repeat(self._writers, 2)
                self._readers = np.repeat(self._readers, 2)
        return united([part.granules(self.shift) for part in parts])

    def read(self, places: Places, number: int, known: int) -> Iterator[tuple[int, int]]:
        """The writers that a read does not come after, 0 where nothing has written. `known` has the own event."""
        writers = self._writers[places]
        for one in _different(writers):
            if not one or not known >> self._records.records[one].event & 1:  # type: ignore[union-attr]
                yield one, self._address(places, writers, one)
        self._note_read(places, number, (known,))

    def read_in_order(self, places: Places, number: int, known: Sequence[int], hidden: int) -> bool:
        """Read, if all writes are known to each of those who read the same record, and none is of the `hidden` events.

        False also where the readers before it matter to some of them and not to others.
        """
        if not self._comes_after(places, functools.reduce(operator.and_, known), hidden):
            return False
        return self._note_read(places, number, known)

    def _comes_after(self, places: Places, known: int, hidden: int) -> bool:
        """Whether all bytes were written, by `known` events; those of warps are not `hidden`."""
        for one in _different(self._writers[places]):
            writer = self._records.records[one]
            if writer is None or not known >> writer.event & 1:
                return False
            if hidden and not writer.engine and hidden >> writer.event & 1:
                return False
        return True

    def _note_read(self, places: Places, number: int, known: Sequence[int]) -> bool:
        readers = self._readers[places]
        different = _different(readers)
        made = [self._records.with_reader(one, number, known[0]) for one in different]
        for other in known[1:]:
            if made != [self._records.with_reader(one, number, other) for one in different]:
                return False
        if len(made) == 1:
            self._readers[places] = made[0]
        elif made:
            order = np.argsort(different)
            table = np.array(made, np.int32)[order]
            self._readers[places] = table[np.searchsorted(np.array(different)[order], readers)]
        return True

    def unwritten(self, places: Places, soon: Sequence[Places] = ()) -> int | None:
        """The first byte that nothing has written, nor will be by what is written `soon`."""
        writers = self._writers[places]
        if soon and not writers.all():
            writers = self._writers.copy()
            for one in soon:
                writers[one] = -1
            writers = writers[places]
        return None if writers.all() else self._address(places, writers, 0)

    def is_empty(self, places: Places) -> bool:
        """Whether nothing has written any byte."""
        return not self._writers[places].any()

    def last_unread(self, places: Places) -> int:
        """The number of the one writer of all bytes, which nothing has read since; 0 where there is none."""
        writers = self._writers[places]
        first = int(writers[0]) if len(writers) else 0
        return 0 if self._readers[places].any() or (writers != first).any() else first

    def is_written(self, address: int) -> bool:
        """Whether something has written a byte."""
        return bool(self._writers[address >> self.shift])

    def writers(self, places: Places) -> list[tuple[int, int]]:
        """Who wrote the bytes last."""
        writers = self._writers[places]
        return [(one, self._address(places, writers, one)) for one in _different(writers) if one]

    def accesses(self, places: slice, *, readers: bool) -> Iterator[tuple[Any, Record]]:
        """Who wrote each granule last, and with `readers` who has read it since: the addresses, and the access."""
        writers, records = self._writers[places], self._records.records
        for one in _different(writers):
            record = records[one]
            if record is not None:
                yield (places.start + np.flatnonzero(writers == one)) << self.shift, record
        sets = self._readers[places]
        for one in _different(sets) if readers else ():
            for reader in self._records.sets[one]:
                record = records[reader]
                if record is not None:
                    yield (places.start + np.flatnonzero(sets == one)) << self.shift, record

    def write(self, places: Places, number: int, known: int) -> Iterator[tuple[int, int]]:
        """The readers and writers that a write does not come after."""
        yield from self.before_write(places, number, known)
        self.note_write(places, number)

    def before_write(self, places: Places, number: int, known: int) -> Iterator[tuple[int, int]]:
        """The readers and writers that a write does not come after; nothing is written yet."""
        records, mine = self._records.records, self._records.records[number]
        assert mine is not None
        writers, readers = self._writers[places], self._readers[places]
        different = [one for one in _different(writers) if one]
        for one in different:
            mine.replaced = max(mine.replaced, records[one].event)  # type: ignore[union-attr]
        for one in _different(readers):
            for reader in self._records.sets[one]:
                mine.readers.add((records[reader].cta, records[reader].warp))  # type: ignore[union-attr]
                if not known >> records[reader].event & 1:  # type: ignore[union-attr]
                    yield reader, self._address(places, readers, one)
        for one in different:
            if not known >> records[one].event & 1:  # type: ignore[union-attr]
                yield one, self._address(places, writers, one)

    def note_write(self, places: Places, number: int) -> None:
        """The bytes are written."""
        self._writers[places] = number
        self._readers[places] = 0

    def tell_apart(self, places: Places, old: int, number: int, *, stays: bool = True) -> None:
        """What the record `old` accessed at `places`, and nothing has written since, the record `number` did.

        Of what is read, `old` stays a reader, too, if it is not said otherwise.
        """
        writers, readers = self._writers[places], self._readers[places]
        self._writers[places] = np.where(writers == old, number, writers)
        made = self._records.beside if stays else self._records.instead
        for one in _different(readers):
            readers = np.where(self._readers[places] == one, made(one, old, number), readers)
        self._readers[places] = readers

    def _address(self, places: Places, values: Any, value: int) -> int:
        at = int(np.argmax(values == value))
        return (places.start + at if isinstance(places, slice) else int(places[at])) << self.shift


def _different(values: Any) -> list[int]:
    """The numbers among `values`, which are few."""
    if not len(values):
        return []
    if len(values) <= 64:
        return list(set(values.tolist()))
    first = int(values[0])
    if not np.count_nonzero(values != first):
        return [first]
    found: list[int] = np.bincount(values).nonzero()[0].tolist()
    return found
