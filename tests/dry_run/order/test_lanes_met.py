"""What lanes of warps find of each other's accesses, against a table with a line for each granule of two bytes."""

from __future__ import annotations

import random

import pytest

from nvbackend.dry_run.order.lane_order import LaneOrder, Moments
from nvbackend.dry_run.order.lanes import LaneShadow
from nvbackend.dry_run.order.record import Part
from nvbackend.isel.machine.function import MachineInstr

SIZE, WARPS, LANES = 128, 2, 8
ALL = (1 << LANES) - 1


class Table:
    """Who wrote and who has read each granule last: a warp since its last meeting, and its lane, None for several."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[int, int | None]] = {}
        self._read: dict[int, tuple[int, int | None]] = {}

    def access(self, period: int, writes: bool, places: dict[int, list[int]]) -> bool:
        """Lanes access places in a period between two meetings: whether another lane of it accessed one before."""
        wrong = False
        for lane, several in places.items():
            for place in several:
                sources = (self._written, self._read) if writes else (self._written,)
                before = [source[place] for source in sources if place in source]
                wrong |= any(one == period and other != lane for one, other in before)
        for place in {one for several in places.values() for one in several}:
            by = [lane for lane, several in places.items() if place in several]
            if writes:
                self._read.pop(place, None)
                self._written[place] = (period, by[0] if len(by) == 1 else None)
                if len(by) > 1:
                    del self._written[place]  # who wrote it last is not known
            else:
                known = self._read.get(place)
                alone = len(by) == 1 and (known is None or known[0] != period or known[1] == by[0])
                self._read[place] = (period, by[0] if alone else None)
        return wrong


def _part(draw: random.Random, lanes: list[int]) -> Part:
    size, step = draw.choice((2, 4, 8)), draw.choice((2, 4, 8, 16))
    first = draw.randrange(0, 32, 2)
    addresses = tuple(first + step * draw.choice((lane, lane, lane ^ 1, 0)) for lane in lanes)
    return Part(MachineInstr("access"), addresses, size, "address")


@pytest.mark.parametrize("seed", range(200))
def test_lanes_are_found_apart_as_a_table_of_granules_says(seed: int) -> None:
    draw, shadow, table, moments = random.Random(seed), LaneShadow(SIZE + 64), Table(), Moments()
    orders = [LaneOrder(moments, ALL) for _ in range(WARPS)]
    period = [*range(WARPS)]
    for turn in range(draw.choice((4, 12, 40))):
        warp = draw.randrange(WARPS)
        if draw.random() < 0.2:
            orders[warp].meet()
            period[warp] = WARPS * (turn + 1) + warp
            continue
        lanes = sorted(draw.sample(range(LANES), draw.choice((1, 2, LANES))))
        part, writes = _part(draw, lanes), draw.random() < 0.5
        assert not isinstance(part.addresses, int)
        places = {
            lane: [*range(address // 2, (address + part.size) // 2)]
            for lane, address in zip(lanes, part.addresses, strict=True)
        }
        mask = sum(1 << lane for lane in lanes)
        found = shadow.access(writes, part, mask, orders[warp])
        assert (found is not None) == table.access(period[warp], writes, places), turn
