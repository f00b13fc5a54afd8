"""Accesses at a place that data decides, of which only the range is known.

They are judged where every place of the range makes the same mistake: at each of its bytes, some access is unordered
with this one. It certainly meets one of them, though which one is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.granules import Addresses
from nvbackend.dry_run.order.record import Part, Record
from nvbackend.dry_run.order.shadow import Shadow


@dataclass(slots=True, eq=False)
class Somewhere:
    """An access of `size` bytes somewhere in the bytes of its record's one part; `met` has 1 for those where it
    conflicts."""

    record: Record
    cta: int
    met: bytearray

    @property
    def part(self) -> Part:
        """Its range."""
        return self.record.parts[0]

    def meet(self, addresses: Addresses, size: int) -> bool:
        """Another access, unordered with this one, has these bytes. Returns whether some certainly meet by now."""
        first, most = self.part.first, len(self.met)
        for address in (addresses,) if isinstance(addresses, int) else addresses:
            start, stop = max(address - first, 0), min(address + size - first, most)
            if start < stop:
                self.met[start:stop] = b"\1" * (stop - start)
        return 0 not in self.met


class Somewheres:
    """The accesses of a run that data places: the last one of each instruction of each warp."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int, int, int], Somewhere] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def keep(self, one: Somewhere) -> None:
        """Keep an access, which later ones may meet."""
        self._kept[one.cta, one.record.cta, one.record.warp, id(one.part.instr)] = one

    def met_by(self, record: Record, part: Part, cta: int, known: int) -> Iterator[Somewhere]:
        """The kept accesses that an access certainly meets, and of whose events it does not know; they are dropped."""
        for key, one in list(self._kept.items()):
            before = one.record
            if (
                key[0] == cta
                and not known >> before.event & 1
                and (before.writes or record.writes)
                and not (before.atomic and record.atomic)
                and before.parts[0].instr is not part.instr
                and one.meet(part.addresses, part.size)
            ):
                del self._kept[key]
                yield one


def earlier_of(one: Somewhere, shadow: Shadow, known: int) -> Record | None:
    """The last of the earlier accesses that it meets, where it certainly meets one; else they are noted."""
    part, record = one.part, one.record
    places, last = shadow.granules([part]), None
    for addresses, other in shadow.accesses(places, readers=record.writes):
        if known >> other.event & 1 or (other.atomic and record.atomic) or other.parts[0].instr is part.instr:
            continue
        last = other
        if one.meet(addresses, 1 << shadow.shift):
            return last
    return None
