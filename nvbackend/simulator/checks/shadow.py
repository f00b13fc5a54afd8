"""What last wrote and read each byte of a piece of memory: source, time and instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import Mask

_LANE_BITS, _LANE = 5, 31
SEVERAL = 32
"""In place of the number of a lane, or added to it: other lanes of the warp, too."""
_WHO, _WHO_MASK = 21, (1 << 20) - 1
_TOGETHER = 1 << 20
"""Of the last read: whether other lanes of the warp made it, too."""
Excused = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], Mask]
"""Of earlier accesses, by their sites and sources, and of the sources now: which do not race with those."""
Wrong = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], Mask]
"""Of earlier accesses, by their sources, lanes and times: which conflict with those that are made now."""
OfSites = Callable[[NDArray[Any], NDArray[Any]], Mask]
"""Of earlier accesses, by their sites and sources: which do not conflict."""
ALWAYS = np.iinfo(np.int32).max
GRANULE = 16
"""Bytes whose readers are kept together."""


@dataclass(slots=True)
class Conflict:
    """An earlier access that the one looked at has not seen: which of its bytes, and the site's number."""

    place: int
    site: int
    time: int
    was_read: bool
    is_of_warp: bool = False
    """Whether it is of another lane of the warp."""
    is_untold: bool = False
    """Whether something of its warp is seen that does not tell of this lane."""
    is_unheard: bool = False
    """Whether another lane of the warp has waited for it."""
    source: int = -1
    """Who did it."""


@dataclass(slots=True)
class Alike:
    """Earlier writes with which a write does not conflict: of the same call, where the bytes keep their value.

    `calls` says of each site whether it is of that call, and `kept` which addresses, (n,), have the value they had.
    """

    calls: Mask
    kept: Mask

    def of(self, sites: NDArray[Any]) -> Mask:
        """Whether earlier writes, by their sites (n, size), are alike."""
        found: Mask = self.kept[:, None] & self.calls[sites]
        return found

    def at(self, where: NDArray[np.int64]) -> Alike:
        """The same for some of the addresses."""
        return Alike(self.calls, self.kept[where])


@dataclass(slots=True)
class WarpMates:
    """The lanes of warps that access, (n, 1) each: the warps, the lanes, and since when each warp has not met.

    An access of another lane since then is not ordered with theirs, unless it comes before one of the `bounds` of these
    lanes, (n, lanes): several lanes count as one that is none of these. Of an operation those until its issue count.
    """

    warps: NDArray[np.int64]
    lanes: NDArray[np.int64]
    since: NDArray[np.int32]
    bounds: NDArray[np.int32] | None = None
    until: int = ALWAYS

    def apart(self, warps: NDArray[Any], lanes: NDArray[Any], times: NDArray[Any]) -> Mask:
        """Which of earlier accesses are not ordered with those of these lanes."""
        found: Mask = (warps == self.warps) & (times >= self.since) & (lanes != self.lanes)
        if self.until != ALWAYS:
            found &= times <= self.until
        if self.bounds is not None and np.count_nonzero(found):
            rows = np.arange(len(found))[:, None]
            known = np.where(lanes < SEVERAL, self.bounds[rows, lanes % SEVERAL], self.bounds.max(axis=1)[:, None])
            found &= times >= known
        return found


class Shadow:
    """The bytes of one window or allocation: the last writer of each byte, some readers of each granule.

    A reader takes slot `source % readers`; one that finds it taken replaces the other, so that a mistake may be missed.
    """

    def __init__(self, size: int, readers: int) -> None:
        self._readers = readers
        granules = -(-size // GRANULE)
        self._written: NDArray[np.int32] = np.zeros(granules * GRANULE, np.int32)
        self._writer: NDArray[np.int32] = np.zeros(granules * GRANULE, np.int32)
        """Source times 32, and the lane where it is a warp."""
        self._write_site: NDArray[np.int32] = np.zeros(granules * GRANULE, np.int32)
        self._last_read: NDArray[np.int64] | None = None
        """By a thread: the time times 2**_WHO, whether with others of its warp, and the thread; None for no reads."""
        self._read: NDArray[np.int32] = np.zeros((granules, readers), np.int32)
        self._reader: NDArray[np.int32] = np.zeros((granules, readers), np.int32)
        self._read_bytes: NDArray[np.uint16] = np.zeros((granules, readers), np.uint16)
        self._read_site: NDArray[np.int32] = np.zeros((granules, readers), np.int32)

    def unseen_write(
        self,
        bytes: NDArray[np.int64],
        sources: NDArray[np.int64],
        rows: NDArray[np.int64],
        clocks: NDArray[np.int32],
        alike: Alike | None = None,
        mates: WarpMates | None = None,
        excused: Excused | None = None,
    ) -> Conflict | None:
        """A write of one of the bytes, (n, size), that its accessor has not seen.

        `sources` (n, 1) are the accessors, `rows` (n, 1) their clocks in `clocks`, (clocks, sources). `alike` says with
        which earlier writes a write does not conflict. Of lanes of the accessor's own warp, `mates` says which are
        ordered with it. What is `excused` does not conflict.
        """
        written, writers = _of(self._written, bytes), _of(self._writer, bytes)
        if _is_even(written) and _is_even(writers):
            written, writers = written[:, :1], writers[:, :1]
        warps = writers >> _LANE_BITS
        unseen = (written > clocks[rows, warps]) & (warps != sources)
        if alike is not None and np.count_nonzero(unseen):
            unseen &= ~alike.of(self._write_site[bytes[:, : unseen.shape[1]]])
        if excused is not None and np.count_nonzero(unseen):
            unseen &= ~excused(self._write_site[bytes[:, : unseen.shape[1]]], warps, sources)
        conflict = self._written_at(bytes, unseen)
        if conflict is None and mates is not None:
            conflict = self._written_at(bytes, mates.apart(warps, writers & _LANE, written))
            if conflict is not None:
                conflict.is_of_warp = True
        return conflict

    def write_that(self, bytes: NDArray[np.int64], wrong: Wrong, excused: OfSites | None = None) -> Conflict | None:
        """The last write of one of the bytes that is wrong, and not excused."""
        written, writers = _of(self._written, bytes), _of(self._writer, bytes)
        if _is_even(written) and _is_even(writers):
            written, writers = written[:, :1], writers[:, :1]
        apart = wrong(writers >> _LANE_BITS, writers & _LANE, written)
        if excused is not None and np.count_nonzero(apart):
            apart &= ~excused(self._write_site[bytes[:, : apart.shape[1]]], writers >> _LANE_BITS)
        return self._written_at(bytes, apart)

    def written(self, bytes: NDArray[np.int64]) -> Conflict | None:
        """A write of one of the bytes by anybody, the accessor too."""
        return self._written_at(bytes, _of(self._written, bytes) > 0)

    def _written_at(self, bytes: NDArray[np.int64], wrong: Mask) -> Conflict | None:
        """The conflict with the first of the writes that are wrong."""
        if not np.count_nonzero(wrong):
            return None
        place = int(np.flatnonzero(wrong.any(axis=1))[0])
        byte = bytes[place, int(np.flatnonzero(wrong[place])[0])]
        site, time, source = (int(each[byte]) for each in (self._write_site, self._written, self._writer))
        return Conflict(place, site, time, False, source=source >> _LANE_BITS)

    def unseen_read(
        self,
        bytes: NDArray[np.int64],
        sources: NDArray[np.int64],
        rows: NDArray[np.int64],
        clocks: NDArray[np.int32],
        excused: Excused | None = None,
    ) -> Conflict | None:
        """A read of one of the bytes that the present writer has not seen; `excused` is as in `unseen_write`."""
        granules, masks = _granules(bytes)
        times, readers = self._read[granules], self._reader[granules]
        shape = (granules.size // len(bytes), self._readers)
        rows, sources = (np.repeat(each.reshape(-1), shape[0])[:, None] for each in (rows, sources))
        unseen = (times > clocks[rows, readers]) & (readers != sources)
        if not np.count_nonzero(unseen):
            return None
        unseen &= (self._read_bytes[granules] & masks[:, None]) != 0
        if excused is not None:
            unseen &= ~excused(self._read_site[granules], readers, sources)
        if not np.count_nonzero(unseen):
            return None
        piece = int(np.flatnonzero(unseen.any(axis=1))[0])
        slot = int(np.flatnonzero(unseen[piece])[0])
        site, time = self._read_site[granules[piece], slot], self._read[granules[piece], slot]
        source = int(self._reader[granules[piece], slot])
        return Conflict(piece // shape[0], int(site), int(time), True, source=source)

    def writes_of(self, bytes: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Time, source and site number of the last write of each byte, or of one for all bytes of an access."""
        written, writers, sites = (_of(each, bytes) for each in (self._written, self._writer, self._write_site))
        writers = writers >> _LANE_BITS
        if _is_even(written) and _is_even(writers) and _is_even(sites):
            return written[:, :1], writers[:, :1], sites[:, :1]
        return written, writers, sites

    def read_apart(self, bytes: NDArray[np.int64], mates: WarpMates) -> Conflict | None:
        """The last read of one of the bytes by a thread, if it is another lane of the writer's warp."""
        conflict = self.read_that(bytes, mates.apart)
        if conflict is not None:
            conflict.is_of_warp = True
        return conflict

    def read_that(self, bytes: NDArray[np.int64], wrong: Wrong, excused: OfSites | None = None) -> Conflict | None:
        """The last read of one of the bytes by a thread, if it is wrong, and not excused."""
        if self._last_read is None:
            return None
        last = self._last_read[bytes]
        warps = (last & _WHO_MASK) >> _LANE_BITS
        apart = wrong(warps, last & _LANE | (last & _TOGETHER) // _TOGETHER * SEVERAL, last >> _WHO)
        if not np.count_nonzero(apart):
            return None
        sites = self._read_site[bytes // GRANULE, warps % self._readers]
        if excused is not None:
            apart &= ~excused(sites, warps)
            if not np.count_nonzero(apart):
                return None
        place = int(np.flatnonzero(apart.any(axis=1))[0])
        at = place, int(np.flatnonzero(apart[place])[0])
        return Conflict(place, int(sites[at]), int(last[at]) >> _WHO, True, source=int(warps[at]))

    def read_by(self, bytes: NDArray[np.int64], threads: NDArray[np.int64], time: int) -> None:
        """Threads read the bytes now."""
        if self._last_read is None:
            self._last_read = np.zeros(len(self._written), np.int64)
        marks = (time << _WHO) + threads[:, None]
        self._last_read[bytes] = marks
        last = self._last_read[bytes]
        together = (last != marks) & (last >> _LANE_BITS == marks >> _LANE_BITS)
        if together.any():
            self._last_read[bytes[together]] |= _TOGETHER

    def write(
        self,
        bytes: NDArray[np.int64],
        sources: NDArray[np.int64],
        time: int,
        site: int,
        lanes: NDArray[np.int64] | int = 0,
    ) -> None:
        """The bytes are written now."""
        writers = (sources << _LANE_BITS) + lanes
        for array, values in ((self._written, time), (self._writer, writers), (self._write_site, site)):
            if bytes.shape[1] % GRANULE:
                array[bytes] = values
            else:
                granules = bytes[:, ::GRANULE] // GRANULE
                array.reshape(-1, GRANULE)[granules] = values if isinstance(values, int) else values[:, None]

    def read(self, bytes: NDArray[np.int64], sources: NDArray[np.int64], time: int, site: int) -> None:
        """The bytes are read now."""
        granules, masks = _granules(bytes)
        each = np.repeat(sources.reshape(-1), granules.size // len(bytes))
        slots = each % self._readers
        at = granules, slots
        goes_on = (self._read[at] == time) & (self._reader[at] == each)
        self._read[at], self._reader[at], self._read_site[at] = time, each, site
        if bytes.shape[1] < GRANULE:
            self._read_bytes[at] = np.where(goes_on, self._read_bytes[at], 0)
            stays = self._reader[at] == each  # of several readers of one slot the last one stays, with its bytes
            np.bitwise_or.at(self._read_bytes, (granules[stays], slots[stays]), masks[stays])
        else:
            self._read_bytes[at] = masks


def _of(array: NDArray[np.int32], bytes: NDArray[np.int64]) -> NDArray[np.int32]:
    """What an array has for each byte; whole granules are taken as rows, which is faster."""
    if bytes.shape[1] % GRANULE:
        return array[bytes]
    return array.reshape(-1, GRANULE)[bytes[:, ::GRANULE] // GRANULE].reshape(bytes.shape)


def _is_even(values: NDArray[np.int32]) -> bool:
    """Whether each access has one value for all of its bytes."""
    return values.shape[1] > 1 and bool((values == values[:, :1]).all())


def _granules(bytes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """The granules of accesses (n, size), those of one access side by side, and a mask of bytes for each."""
    size = bytes.shape[1]
    if size >= GRANULE and size % GRANULE == 0:
        granules = bytes[:, ::GRANULE] // GRANULE
        return granules.reshape(-1), np.full(granules.size, 0xFFFF, np.uint16)
    first = bytes[:, 0]
    masks = ((1 << size) - 1) << (first % GRANULE)
    return first // GRANULE, masks.astype(np.uint16)
