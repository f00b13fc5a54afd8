"""cp.async: a few bytes a thread from global to shared memory, later. PTX ISA 9.7.9.25.3."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Instruction, Negated, Operand
from nvbackend.simulator.calls.copies import groups
from nvbackend.simulator.calls.qualifiers import SHARED, chosen, only
from nvbackend.simulator.copies.bulk import check_async, read_sizes
from nvbackend.simulator.events import Addresses, By, Pending
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Reader, Step, Wave
from nvbackend.simulator.sync.faults import located
from nvbackend.simulator.sync.groups import CpAsyncGroups
from nvbackend.simulator.sync.mbarriers import Mbarriers, Places

_HINTS = ("L2::64B", "L2::128B", "L2::256B", "L2::cache_hint")


@dataclass(eq=False)
class Copy(Pending):
    """The copies of some threads: of each `size` bytes, of which the first `read` come from the source."""

    wave: Wave
    size: int
    source: Addresses
    source_space: str
    target: Addresses
    target_space: str
    read: NDArray[np.int64]

    def complete(self) -> None:
        """Read the sources, then write the destinations; what is not read is zero."""
        data = np.zeros((len(self.source), self.size), np.uint8)
        for count in np.unique(self.read[self.read > 0]).tolist():
            here = np.flatnonzero(self.read == count)
            # A count that is not a power of two is read byte by byte, one thread at a time.
            for part in here[:, None] if count & count - 1 else [here]:
                data[part, :count] = self.wave.read(self._by(part), self.source_space, self.source[part], count)
        self.wave.write(self._by(np.arange(len(self.source))), self.target_space, self.target, data)

    def _by(self, here: NDArray[np.int64]) -> By:
        return By(self.site, self.threads[here], operation=self)


@dataclass(eq=False)
class Arrival(Pending):
    """An arrival of some threads at mbarriers when their earlier copies are done."""

    wave: Wave
    places: Places

    def complete(self) -> None:
        """Arrive."""
        self.wave.part(Mbarriers).arrive(By(self.site, self.threads, operation=self), self.places)


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of any cp.async instruction other than a bulk copy."""
    parts = instruction.parts
    if parts[2] == "commit_group":
        return groups.commit(CpAsyncGroups)
    if parts[2] == "wait_group":
        return groups.wait(place, CpAsyncGroups, place.immediate(instruction.operands[0]))
    if parts[2] == "wait_all":
        return groups.wait(place, CpAsyncGroups, 0, commits=True)
    if parts[2] == "mbarrier":
        return _arrive(instruction, place)
    return _copy(instruction, place)


def _copy(instruction: Instruction, place: Compiling) -> Step:
    only(place, ("async", "ca", "cg", "global", *SHARED, *_HINTS))
    parts, operands = instruction.parts, instruction.operands
    target, source = place.address(operands[0]), place.address(operands[1])
    size = place.immediate(operands[2])
    check_async(instruction.opcode, chosen(place, ("ca", "cg")), size)
    rest = list(operands[3:])
    if "L2::cache_hint" in parts:
        rest.pop()
    source_size, ignored = _options(place, rest)
    space = chosen(place, SHARED)

    def step(wave: Wave, lanes: Lanes) -> None:
        sizes = None if source_size is None else source_size(wave, lanes)
        skip = None if ignored is None else ignored(wave, lanes)
        with located(wave, place.by(lanes)):
            read = read_sizes(instruction.opcode, size, sizes, skip, lanes.count)
        operation = Copy(
            place.site,
            lanes.threads,
            "cp.async",
            wave,
            size,
            source(wave, lanes),
            "global",
            target(wave, lanes),
            space,
            read,
        )
        wave.part(CpAsyncGroups).add(operation, lanes.threads)
        wave.start(operation)

    return step


def _options(place: Compiling, rest: list[Operand]) -> tuple[Reader | None, Reader | None]:
    """The readers of src-size and of ignore-src: a predicate where it is one."""
    if not rest:
        return None, None
    if isinstance(rest[0], Negated) or place.symbols.bits(rest[0]) == 1:
        return None, place.read(rest[0], "pred")
    return place.read(rest[0], "u32"), None


def _arrive(instruction: Instruction, place: Compiling) -> Step:
    only(place, ("async", "mbarrier", "arrive", "noinc", "b64", *SHARED))
    increments = "noinc" not in instruction.parts
    space, address = chosen(place, SHARED), place.address(instruction.operands[0])

    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes)
        places = wave.locate(by, space, address(wave, lanes))
        if increments:
            wave.part(Mbarriers).await_more(by, places)
        copies = tuple(member.operation for member, _ in wave.part(CpAsyncGroups).in_flight(lanes.threads))
        wave.start(Arrival(place.site, lanes.threads, "cp.async.mbarrier.arrive", wave, places, after=copies))

    return step
