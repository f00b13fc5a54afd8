"""tcgen05.ld, .st and their waits: a warp's registers and its quarter of tensor memory. PTX ISA 9.7.16.8."""

from __future__ import annotations

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.copies import groups
from nvbackend.simulator.calls.in_common import in_common
from nvbackend.simulator.calls.tensor.tmem import TensorMemory
from nvbackend.simulator.calls.together import warps
from nvbackend.simulator.events import Bits, By, Pending
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.in_flight import Flights, slots_of
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.wave import Step, Wave, Writer
from nvbackend.simulator.sync.groups import Groups
from nvbackend.simulator.tensor.tensor_memory import LANES, Cells, register_cells

_SPLIT = "16x32bx2"
_KNOWN = frozenset({"sync", "aligned", "b32", "pack::16b", "unpack::16b"})
_REDUCTIONS = frozenset({"red", "min", "max", "abs", "NaN", "f32", "u32", "s32"})


class Loads(Groups):
    """The loads of each thread in flight: every one is a group."""


class Stores(Groups):
    """The stores of each thread in flight."""


def compile(instruction: Instruction, place: Compiling) -> Step:
    """Loads, stores, and the waits for them."""
    parts = instruction.parts
    if parts[1] == "wait::ld":
        return groups.wait(place, Loads, 0)
    if parts[1] == "wait::st":
        return groups.wait(place, Stores, 0)
    cells = _cells(instruction, place)
    return _load(instruction, place, cells) if parts[1] == "ld" else _store(instruction, place, cells)


def _cells(instruction: Instruction, place: Compiling) -> Cells:
    parts = instruction.parts[2:]
    shape = next((part for part in parts if part[:2] in ("16", "32") and "x" in part), "")
    repeats = next((int(part[1:]) for part in parts if part[0] == "x" and part[1:].isdigit()), 0)
    split = 0
    if shape == _SPLIT:
        split = place.immediate(instruction.operands[-1 if instruction.parts[1] == "ld" else 1])
    found = register_cells(shape, repeats, split=split, packed="pack::16b" in parts or "unpack::16b" in parts)
    if found is None or not repeats or set(parts) - {shape, f"x{repeats}"} - _KNOWN - _REDUCTIONS:
        place.unknown("this form")
    return found


@dataclass(eq=False)
class _Move(Pending):
    """A load or store of some warps; `bases` are the lane and column that each warp's address names."""

    wave: Wave
    cells: Cells
    bases: list[tuple[int, int]]

    @property
    def lanes(self) -> Lanes:
        """Its threads."""
        return Lanes(self.threads, full=len(self.threads) == self.wave.size)

    def each(self) -> list[tuple[By, int, Bits, Bits]]:
        """Of each warp: who it is, its CTA, and its cells."""
        memory, wave, found = self.wave.part(TensorMemory), self.wave, []
        for number, (lane, column) in enumerate(self.bases):
            threads = self.threads[number * WARP : (number + 1) * WARP]
            by = By(self.site, threads[:1], operation=self)
            quarter = int(threads[0]) % wave.cta_threads // WARP % 4
            if lane // WARP != quarter or lane >= LANES:
                own = f"{WARP * quarter} to {WARP * quarter + WARP - 1}"
                memory.refuse(by, f"lane {lane} is not of this warp, which has the lanes {own}")
            found.append((by, int(wave.cta(threads[:1])[0]), self.cells.lane + lane, self.cells.column + column))
        return found


@dataclass(eq=False)
class _Load(_Move):
    """Reads tensor memory and writes the registers when it completes."""

    write: Writer
    reduced: tuple[Writer, str, frozenset[str]] | None

    def complete(self) -> None:
        """Read the cells of every warp."""
        memory, found = self.wave.part(TensorMemory), []
        for by, cta, lane, column in self.each():
            words = memory.read(by, cta, lane, column)
            found.append(
                (words[:, 0] & np.uint32(0xFFFF)) | words[:, 1] << np.uint32(16) if self.cells.packed else words
            )
        values = np.concatenate(found, axis=1)
        self.write(self.wave, self.lanes, values)
        if self.reduced is not None:
            write, kind, flags = self.reduced
            write(self.wave, self.lanes, _reduction(values, kind, flags))


@dataclass(eq=False)
class _Store(_Move):
    """Writes tensor memory when it completes; the registers are read when it is issued, and may change after it."""

    values: Bits

    def complete(self) -> None:
        """Write the cells of every warp."""
        memory, values = self.wave.part(TensorMemory), self.values
        for number, (by, cta, lane, column) in enumerate(self.each()):
            words = values[:, number * WARP : (number + 1) * WARP]
            if self.cells.packed:
                words = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=1)
            memory.write(by, cta, lane, column, words)


def _bases(addresses: Bits) -> list[tuple[int, int]]:
    return [(int(word) >> 16, int(word) & 0xFFFF) for word in addresses[::WARP]]


def _load(instruction: Instruction, place: Compiling, cells: Cells) -> Step:
    parts, operands = instruction.parts, instruction.operands
    reduces = "red" in parts
    write, address = place.writes(operands[0], "b32"), place.address(operands[2 if reduces else 1])
    reduced = (place.write(operands[1], "b32"), parts[-1], frozenset(parts)) if reduces else None
    if len(place.elements(operands[0])) != len(cells.lane):
        place.unknown(f"{len(place.elements(operands[0]))} registers, where it has {len(cells.lane)}")

    written = frozenset(slots_of(place.symbols, operands[: 1 + reduces]))

    def load(wave: Wave, lanes: Lanes) -> None:
        bases = _bases(in_common(place, wave, lanes, address(wave, lanes), "taddr"))
        operation = _Load(place.site, lanes.threads, "tcgen05.ld", wave, cells, bases, write, reduced)
        if wave.observers:
            wave.part(Flights).start(operation, written)
        _start(wave, lanes, operation, Loads)

    return warps(place, load)


def _store(instruction: Instruction, place: Compiling, cells: Cells) -> Step:
    operands = instruction.operands
    address, read = place.address(operands[0]), place.reads(operands[-1], "b32")
    if len(place.elements(operands[-1])) != len(cells.lane):
        place.unknown(f"{len(place.elements(operands[-1]))} registers, where it has {len(cells.lane)}")

    def store(wave: Wave, lanes: Lanes) -> None:
        bases = _bases(in_common(place, wave, lanes, address(wave, lanes), "taddr"))
        values = np.array(read(wave, lanes))
        _start(wave, lanes, _Store(place.site, lanes.threads, "tcgen05.st", wave, cells, bases, values), Stores)

    return warps(place, store)


def _start(wave: Wave, lanes: Lanes, operation: Pending, kind: type[Groups]) -> None:
    wave.part(kind).add(operation, lanes.threads)
    wave.part(kind).commit(lanes)
    wave.start(operation)


def _reduction(values: Bits, kind: str, flags: frozenset[str]) -> Bits:
    """The least or greatest of each thread's registers."""
    if kind != "f32":
        numbers = values.view(np.int32) if kind == "s32" else values
        found: Bits = (numbers.min(axis=0) if "min" in flags else numbers.max(axis=0)).view(np.uint32)
        return found
    floats = np.abs(values.view(np.float32)) if "abs" in flags else values.view(np.float32)
    keeps = "NaN" in flags
    least, greatest = (np.minimum, np.maximum) if keeps else (np.fmin, np.fmax)
    result = (least if "min" in flags else greatest).reduce(floats, axis=0)
    words: Bits = np.where(np.isnan(result), np.uint32(0x7FFFFFFF), np.ascontiguousarray(result).view(np.uint32))
    return words
