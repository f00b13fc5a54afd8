"""st.async, red.async and st.bulk: stores that complete later, on an mbarrier; and zeros. PTX ISA 9.7.9.12-14."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.copies.engines import Engine, Reduction, Side, must_have_cluster
from nvbackend.simulator.calls.qualifiers import SCOPES, SHARED, chosen, only
from nvbackend.simulator.copies.bulk import ST_BULK_UNIT, check_bulk
from nvbackend.simulator.copies.reduction import can_reduce
from nvbackend.simulator.events import Addresses, By
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.types import bits
from nvbackend.simulator.machine.wave import Step, Wave
from nvbackend.simulator.sync.faults import located
from nvbackend.simulator.sync.mbarriers import Mbarriers

_MBARRIER = "mbarrier::complete_tx::bytes"
_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_TYPES = ("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64", "b8", "b16")
_VECTORS = {"v2": 2, "v4": 4}


@dataclass(eq=False)
class Sending(Engine):
    """The values of some threads on their way to the shared memory of a CTA of the cluster.

    The mbarrier of each thread's value is in the same CTA. The store completes on it once the value is in memory.
    """

    target: Side
    data: NDArray[np.uint8]
    barriers: Addresses
    reduction: Reduction | None = None

    def by(self) -> By:
        """One thread for each value; they go by the generic proxy."""
        return By(self.site, self.threads, operation=self, order="relaxed", scope="cluster")

    def complete(self) -> None:
        """Write the values, tell the mbarriers."""
        self.put(self.target, self.data, self.reduction)
        by = self.by()
        places = self.wave.locate(by, self.target.space, self.barriers)
        counts = np.full(len(self.barriers), self.target.size)
        self.wave.part(Mbarriers).transact(by, places, counts, completed=True)


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of st.async, red.async or st.bulk."""
    if "bulk" in instruction.parts:
        return _zeros(instruction, place)
    if _MBARRIER not in instruction.parts:
        place.unknown("a store to other devices")
    known = ("async", "weak", "relaxed", "release", "shared::cluster", _MBARRIER, *SCOPES)
    only(place, (*known, *_OPERATIONS, *_TYPES, *_VECTORS))
    parts, operands = instruction.parts, instruction.operands
    target, barrier = place.address(operands[0]), place.address(operands[2])
    space = chosen(place, SHARED)
    count = _VECTORS.get(chosen(place, _VECTORS), 1)
    values = place.reads(operands[1], parts[-1])
    size = (bits(parts[-1]) or 8) // 8 * count
    reduction = None
    if parts[0] == "red":
        reduction = Reduction(chosen(place, _OPERATIONS), parts[-1])
        if not can_reduce(reduction.operation, reduction.type):
            place.unknown(f".{reduction.operation}.{reduction.type}")

    def step(wave: Wave, lanes: Lanes) -> None:
        must_have_cluster(wave, place.by(lanes))
        data = np.ascontiguousarray(values(wave, lanes).T).view(np.uint8).reshape(lanes.count, size)
        to = Side(space, target(wave, lanes), size)
        name = f"{parts[0]}.async"
        at = barrier(wave, lanes)
        sending = Sending(place.site, lanes.threads, name, wave, to, data, at, reduction)
        wave.part(Mbarriers).must_exist(sending.by(), wave.locate(sending.by(), space, at))
        wave.start(sending)

    return step


def _zeros(instruction: Instruction, place: Compiling) -> Step:
    """st.bulk writes zeros, at once."""
    only(place, ("weak", "bulk", *SHARED))
    address, size = place.address(instruction.operands[0]), place.read(instruction.operands[1], "u64")
    value = place.immediate(instruction.operands[2]) if len(instruction.operands) > 2 else 0
    if value:
        place.unknown(f"the value {value}, where only 0 is")
    space = chosen(place, SHARED)

    def step(wave: Wave, lanes: Lanes) -> None:
        rows = zip(address(wave, lanes).tolist(), size(wave, lanes).tolist(), strict=True)
        for number, (start, count) in enumerate(rows):
            by = By(place.site, lanes.threads[number : number + 1])
            with located(wave, by):
                check_bulk(instruction.opcode, count, unit=ST_BULK_UNIT, destination=start)
            each = np.uint64(start) + np.arange(0, count, ST_BULK_UNIT, dtype=np.uint64)
            wave.write(by, space, each, np.zeros((len(each), ST_BULK_UNIT), np.uint8))

    return step
