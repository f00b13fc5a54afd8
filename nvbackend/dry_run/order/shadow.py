"""Who last wrote each byte of a CTA's shared memory, and who has read it since.

Bytes are kept in granules, which begin at 16 bytes and become smaller when something smaller is accessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nvbackend.dry_run.order.record import Places, Record

_LARGEST = 4
"""The logarithm of the bytes of a granule at first."""


class Records:
    """All records of a run by number, from 1 on, and the sets of them that read a byte, by number too."""

    def __init__(self) -> None:
        self.records: list[Record | None] = [None]
        self.sets: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}

    def add(self, record: Record) -> int:
        """The number of a new record."""
        self.records.append(record)
        return len(self.records) - 1

    def with_reader(self, old: int, number: int, known: int) -> int:
        """The set `old` with one more reader, less those that it comes after: who waits for it waits for them."""
        records, event = self.records, self.records[number].event  # type: ignore[union-attr]
        kept = tuple(
            one
            for one in self.sets[old]
            if not known >> records[one].event & 1 and records[one].event != event  # type: ignore[union-attr]
        )
        made = (*kept, number)
        found = self._numbers.get(made)
        if found is None:
            found = self._numbers[made] = len(self.sets)
            self.sets.append(made)
        return found


class Shadow:
    """The shared memory of one CTA. Conflicts are the record of the earlier access and the address."""

    def __init__(self, size: int, records: Records, shift: int = _LARGEST) -> None:
        self.shift = shift
        self.size = size
        self._records = records
        count = (size >> shift) + 1
        self._writers = np.zeros(count, np.int32)
        self._readers = np.zeros(count, np.int32)

    def refine(self, addresses: Any, size: int) -> None:
        """Make the granules small enough for an access."""
        bits = size | (addresses if isinstance(addresses, int) else int(np.bitwise_or.reduce(addresses)))
        while bits & ((1 << self.shift) - 1):
            self.shift -= 1
            self._writers = np.repeat(self._writers, 2)
            self._readers = np.repeat(self._readers, 2)

    def places(self, addresses: Any, size: int) -> Places:
        """The granules of an access, for which they are small enough."""
        shift = self.shift
        if isinstance(addresses, int):
            return slice(addresses >> shift, (addresses + size) >> shift)
        first = addresses >> shift
        count = size >> shift
        if count == 1:
            return first
        return (first[:, None] + np.arange(count)).reshape(-1)

    def read(self, places: Places, number: int, known: int) -> Iterator[tuple[int, int]]:
        """The writers that a read does not come after, 0 where nothing has written. `known` has the own event."""
        writers = self._writers[places]
        for one in _different(writers):
            if not one or not known >> self._records.records[one].event & 1:  # type: ignore[union-attr]
                yield one, self._address(places, writers, one)
        readers = self._readers[places]
        different = _different(readers)
        made = [self._records.with_reader(one, number, known) for one in different]
        if len(made) == 1:
            self._readers[places] = made[0]
        elif made:
            order = np.argsort(different)
            table = np.array(made, np.int32)[order]
            self._readers[places] = table[np.searchsorted(np.array(different)[order], readers)]

    def unwritten(self, addresses: Any, size: int) -> int | None:
        """The first byte of an access that nothing has written."""
        places = self.places(addresses, size)
        writers = self._writers[places]
        return None if writers.all() else self._address(places, writers, 0)

    def is_empty(self, addresses: Any, size: int) -> bool:
        """Whether nothing has written any byte of an access."""
        return not self._writers[self.places(addresses, size)].any()

    def writers(self, places: Places) -> list[tuple[int, int]]:
        """Who wrote the bytes last."""
        writers = self._writers[places]
        return [(one, self._address(places, writers, one)) for one in _different(writers) if one]

    def write(self, places: Places, number: int, known: int) -> Iterator[tuple[int, int]]:
        """The readers and writers that a write does not come after."""
        records, mine = self._records.records, self._records.records[number]
        assert mine is not None
        writers, readers = self._writers[places], self._readers[places]
        for one in _different(readers):
            for reader in self._records.sets[one]:
                mine.readers.add((records[reader].cta, records[reader].warp))  # type: ignore[union-attr]
                if not known >> records[reader].event & 1:  # type: ignore[union-attr]
                    yield reader, self._address(places, readers, one)
        for one in _different(writers):
            if one:
                mine.replaced = max(mine.replaced, records[one].event)  # type: ignore[union-attr]
                if not known >> records[one].event & 1:  # type: ignore[union-attr]
                    yield one, self._address(places, writers, one)
        self._writers[places] = number
        self._readers[places] = 0

    def _address(self, places: Places, values: Any, value: int) -> int:
        at = int(np.argmax(values == value))
        return (places.start + at if isinstance(places, slice) else int(places[at])) << self.shift


def _different(values: Any) -> list[int]:
    if not len(values):
        return []
    first = int(values[0])
    if len(values) > 64:
        return [first] if (values == first).all() else [int(one) for one in np.unique(values)]
    return list(set(values.tolist()))
