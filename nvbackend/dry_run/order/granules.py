"""Granules of memory as the bits of integers, page by page: those of an access, and what is kept for each of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, overload

Addresses: TypeAlias = "int | Sequence[int]"
"""One address, or several, which may be those of the lanes."""
Pages: TypeAlias = dict[int, int]
"""Granules: of each page, by its number, a bit for each of its granules that is one of them."""
Sixteens: TypeAlias = tuple[int, int]
"""Granules of 16 bytes: a bit for each, and the number of that of the lowest bit."""
_BITS = 11
_SIZE = 1 << _BITS
"""The granules of a page."""
_SIXTEEN = 4
"""The logarithm of the bytes of a granule of 16."""
_NOTHING: Mapping[int, int] = {}


class Moved(Sequence[int]):
    """Other addresses, so many bytes further."""

    __slots__ = ("_by", "_others")

    def __init__(self, others: Sequence[int], by: int) -> None:
        self._others = others
        self._by = by

    def __len__(self) -> int:
        return len(self._others)

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...

    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        return Moved(self._others[at], self._by) if isinstance(at, slice) else self._others[at] + self._by

    def __iter__(self) -> Iterator[int]:
        by = self._by
        return iter([address + by for address in self._others])


class Granules:
    """The granules of `1 << shift` bytes that accesses touch."""

    __slots__ = ("_accesses", "_shift", "pages")

    def __init__(self, pages: Pages, accesses: Sequence[tuple[Addresses, int]], shift: int) -> None:
        self.pages = pages
        self._accesses = accesses
        self._shift = shift

    def first(self, among: Pages) -> int:
        """The address of the first one, in the order of the accesses, that is `among` these, which are some of them."""
        shift = self._shift
        several = self._accesses if len(self._accesses) > 1 or not isinstance(self._accesses[0][0], int) else ()
        for addresses, size in several:
            for address in (addresses,) if isinstance(addresses, int) else addresses:
                for granule in range(address >> shift, (address + size) >> shift):
                    if among.get(granule >> _BITS, 0) >> (granule & _SIZE - 1) & 1:
                        return granule << shift
        return next(numbers_of(among)) << shift

    @classmethod
    def united(cls, several: Sequence[Granules]) -> Granules:
        """Those of several accesses, of one size."""
        if len(several) == 1:
            return several[0]
        pages: Pages = {}
        for one in several:
            for page, bits in one.pages.items():
                pages[page] = pages.get(page, 0) | bits
        return cls(pages, [run for one in several for run in one._accesses], several[0]._shift if several else 0)


def granules(addresses: Addresses, size: int, shift: int, known: Sixteens | None = None) -> Granules:
    """The granules of `size` bytes at each of the addresses, which begin and end with granules; `known` has them."""
    if isinstance(addresses, int):
        pages = _run(addresses >> shift, (addresses + size) >> shift)
    elif known is not None and shift <= _SIXTEEN:
        mask, first = known
        for _ in range(_SIXTEEN - shift):
            mask, first = _halved(mask), 2 * first
        pages = _pages(mask << (first & _SIZE - 1), first >> _BITS)
    else:
        pages = {}
        for start, stop in _runs(sorted(addresses), size):
            for page, bits in _run(start >> shift, stop >> shift).items():
                pages[page] = pages.get(page, 0) | bits
    return Granules(pages, ((addresses, size),), shift)


def single_bytes(part: range) -> Granules:
    """The bytes of a range, as granules of one byte."""
    return granules(part.start, len(part), 0)


def mask_of(numbers: Iterable[int]) -> int:
    """A bit for each of the numbers."""
    mask = bytearray()
    for number in numbers:
        if number >> 3 >= len(mask):
            mask.extend(bytes((number >> 3) + 1 - len(mask)))
        mask[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(mask, "little")


def numbers_of(pages: Pages) -> Iterator[int]:
    """The numbers of granules, in their order."""
    for page, bits in sorted(pages.items()):
        left = bits
        while left:
            yield page * _SIZE + (left & -left).bit_length() - 1
            left &= left - 1


def _runs(addresses: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    """The bytes at addresses in their order, as few ranges."""
    if not addresses:
        return
    start = stop = addresses[0]
    for address in addresses:
        if address > stop:
            yield start, stop
            start = address
        stop = address + size
    yield start, stop


def _run(start: int, stop: int) -> Pages:
    """The granules from `start` to before `stop`."""
    first = start >> _BITS
    if stop - 1 >> _BITS == first:
        return {first: (1 << stop - start) - 1 << (start & _SIZE - 1)}
    pages: Pages = {}
    while start < stop:
        end = min(stop, (start | _SIZE - 1) + 1)
        pages[start >> _BITS] = (1 << end - start) - 1 << (start & _SIZE - 1)
        start = end
    return pages


def _pages(mask: int, first: int = 0) -> Pages:
    """The bits of one mask, from page `first` on."""
    data, step = mask.to_bytes((mask.bit_length() + 7) // 8, "little"), _SIZE // 8
    parts = (int.from_bytes(data[at : at + step], "little") for at in range(0, len(data), step))
    return {page: bits for page, bits in enumerate(parts, first) if bits}


def _halved(mask: int) -> int:
    """The mask of granules of half the bytes: each bit is two."""
    size = (mask.bit_length() + 7) // 8
    data, doubled = mask.to_bytes(size, "little"), bytearray(2 * size)
    doubled[::2], doubled[1::2] = data.translate(_spread(0)), data.translate(_spread(4))
    return int.from_bytes(doubled, "little")


@functools.cache
def _spread(shift: int) -> bytes:
    """For each byte, its four bits from `shift` on, twice each."""
    return bytes(sum(3 << 2 * bit for bit in range(4) if byte >> shift + bit & 1) for byte in range(256))


class Kept:
    """A number above 0 for each granule, kept as the granules of each number; 0 where there is none."""

    __slots__ = ("_pages",)

    def __init__(self) -> None:
        self._pages: dict[int, dict[int, int]] = {}
        """Of each page, the bits of each number."""

    def there(self, pages: Pages) -> list[tuple[int, Pages]]:
        """The numbers of these granules, in their order, with the granules of each."""
        found: dict[int, Pages] = {}
        for page, bits in pages.items():
            rest = bits
            for number, every in self._pages.get(page, _NOTHING).items():
                part = every & bits
                if part:
                    rest ^= part
                    found.setdefault(number, {})[page] = part
            if rest:
                found.setdefault(0, {})[page] = rest
        return sorted(found.items()) if len(found) > 1 else list(found.items())

    def every(self) -> Iterator[tuple[int, Pages]]:
        """All numbers, with the granules of each."""
        found: dict[int, Pages] = {}
        for page, kept in self._pages.items():
            for number, bits in kept.items():
                found.setdefault(number, {})[page] = bits
        yield from sorted(found.items())

    def put(self, pages: Pages, number: int) -> None:
        """These granules have this number now."""
        for page, bits in pages.items():
            kept = self._pages.setdefault(page, {})
            for other in [other for other, every in kept.items() if every & bits]:
                left = kept[other] & ~bits
                if left:
                    kept[other] = left
                else:
                    del kept[other]
            if number:
                kept[number] = kept.get(number, 0) | bits

    def any(self, pages: Pages) -> bool:
        """Whether any of these granules has a number."""
        return any(every & bits for page, bits in pages.items() for every in self._pages.get(page, _NOTHING).values())

    def without(self, pages: Pages) -> Pages:
        """Those of these granules that have no number."""
        return next((part for number, part in self.there(pages) if not number), {})

    def halve(self) -> None:
        """The granules have half the bytes from now on."""
        before, self._pages = self._pages, {}
        for page, kept in before.items():
            for number, bits in kept.items():
                for half, part in _pages(_halved(bits)).items():
                    self._pages.setdefault(2 * page + half, {})[number] = part
