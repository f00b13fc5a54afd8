"""The known numbers in shared memory: those that threads stored, until something else is written there."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from nvbackend.dry_run.seam import RANK_SHIFT, Named
from nvbackend.dry_run.values.lanes import LANES, among
from nvbackend.dry_run.values.unknown import UNKNOWN, Expression, Unknown, leaf

_OFFSET = (1 << RANK_SHIFT) - 1


class SharedNumbers:
    """Known numbers in the shared memory of all CTAs, by CTA and offset, each with its size in bytes."""

    def __init__(self, cluster: int, table: dict[Hashable, Expression]) -> None:
        self._table = table
        self._values = 0
        self._cluster = cluster
        self._known: dict[tuple[int, int], tuple[int, Any]] = {}

    @property
    def has_known(self) -> bool:
        """Whether any number is known."""
        return bool(self._known)

    def fresh(self, bits: int) -> Expression:
        """A new value of so many bits, equal to no other."""
        self._values += 1
        return leaf(self._table, f"fresh i{bits}", self._values)

    def named(self, bits: int, name: Named) -> Expression:
        """The value of so many bits that is called `name`."""
        return leaf(self._table, f"named i{bits}", *name)

    def load(self, address: Any, size: int, cta: int, mask: int) -> Any:
        """The number at `address`, in each of the lanes `mask` of a warp of `cta`."""
        where = among(address, mask)
        if type(where) is not int or not self._known:
            return UNKNOWN
        found = self._known.get(self._place(where, cta))
        return found[1] if found is not None and found[0] == size else UNKNOWN

    def store(self, address: Any, value: Any, size: int, cta: int, mask: int) -> None:
        """What lanes `mask` of a warp of `cta` store: something new where it is not known what."""
        where = among(address, mask)
        if isinstance(where, Unknown):
            self._known.clear()
            return
        if type(where) is not int:
            for lane in range(LANES):
                if mask >> lane & 1:
                    one = value if type(value) is int or isinstance(value, Unknown) else value.numbers[lane]
                    self.store(where.numbers[lane], one, size, cta, 1 << lane)
            return
        self.forget(where, size, cta)
        number = among(value, mask)
        if isinstance(number, Unknown) and number.varies:
            number = self.fresh(8 * size)
        if type(number) is int or isinstance(number, Unknown):
            self._known[self._place(where, cta)] = (size, number)

    def forget(self, address: Any, size: int | None, cta: int, *, all_ctas: bool = False) -> None:
        """Something else is written to so many bytes, None where that is not known, in the CTA or in all."""
        if not self._known:
            return
        if isinstance(address, Unknown) or size is None:
            self._known.clear()
            return
        if all_ctas or type(address) is not int:
            places = {address} if type(address) is int else set(address.numbers)
            ranks = range(self._cluster) if all_ctas else ()
            places |= {place & _OFFSET | rank << RANK_SHIFT for place in places for rank in ranks}
            for place in places:
                self.forget(place, size, cta)
            return
        owner, start = self._place(address, cta)
        if len(self._known) > size:
            near = range(start - 7, start + size)
            gone = [(owner, place) for place in near if (owner, place) in self._known]
        else:
            gone = [one for one in self._known if one[0] == owner and start - 8 < one[1] < start + size]
        for one in gone:
            if one[1] + self._known[one][0] > start:
                del self._known[one]

    def _place(self, address: int, cta: int) -> tuple[int, int]:
        return cta - cta % self._cluster + (address >> RANK_SHIFT), address & _OFFSET
