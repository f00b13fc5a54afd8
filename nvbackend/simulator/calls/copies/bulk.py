"""cp.async.bulk and cp.reduce.async.bulk of runs of bytes, their groups, and prefetches. PTX ISA 9.7.9.25.4."""

from __future__ import annotations

import numpy as np

from nvbackend.ptx.syntax import Instruction, Operand
from nvbackend.simulator.calls.copies import groups
from nvbackend.simulator.calls.copies.engines import (
    Load,
    Reading,
    Reduction,
    Side,
    Store,
    in_cta,
    must_have_cluster,
    ranks,
    start_load,
)
from nvbackend.simulator.calls.qualifiers import chosen, only
from nvbackend.simulator.copies.bulk import BULK_UNIT, check_bulk, copied_bytes
from nvbackend.simulator.copies.reduction import can_reduce
from nvbackend.simulator.events import Addresses
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes, one_lane
from nvbackend.simulator.machine.wave import Reader, Step, Wave
from nvbackend.simulator.sync.faults import located
from nvbackend.simulator.sync.groups import BulkGroups

_MBARRIER = "mbarrier::complete_tx::bytes"
_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_TYPES = ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64", "b32", "b64")
_KNOWN = (
    *("async", "bulk", "reduce", "prefetch", "L2", "shared::cluster", "shared::cta", "global", _MBARRIER, "bulk_group"),
    *("multicast::cluster", "L2::cache_hint", "cp_mask", "noftz", *_OPERATIONS, *_TYPES),
)


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of a bulk copy of bytes, or of what commits and waits for groups."""
    parts = instruction.parts
    if "commit_group" in parts:
        return groups.commit(BulkGroups)
    if "wait_group" in parts:
        leave = place.immediate(instruction.operands[0])
        return groups.wait(place, BulkGroups, leave, read="read" in parts)
    only(place, _KNOWN)
    if "prefetch" in parts:
        return _prefetch(instruction, place)
    return _load(instruction, place) if _MBARRIER in parts else _store(instruction, place)


def _numbers(operand: Operand | None, place: Compiling, type: str) -> Reader | None:
    return None if operand is None else place.read(operand, type)


def reduction_of(instruction: Instruction, place: Compiling) -> Reduction | None:
    """What a cp.reduce does, None for a plain copy."""
    if instruction.parts[1] != "reduce":
        return None
    found = Reduction(chosen(place, _OPERATIONS), instruction.parts[-1])
    if not can_reduce(found.operation, found.type):
        place.unknown(f".{found.operation}.{found.type}")
    # cp.reduce of f32 flushes subnormal numbers.
    return Reduction(found.operation, "f32.ftz") if found.type == "f32" else found


def _load(instruction: Instruction, place: Compiling) -> Step:
    """Into shared memory, by an mbarrier: from global memory, or from this CTA's shared memory into a peer's."""
    parts, operands = instruction.parts, list(instruction.operands)
    if "L2::cache_hint" in parts:
        operands.pop()
    reduction = reduction_of(instruction, place)
    spaces = [part for part in parts if part in ("shared::cluster", "shared::cta", "global")]
    target, source = place.address(operands[0]), place.address(operands[1])
    size, barrier = place.read(operands[2], "u32"), place.address(operands[3])
    mask = _numbers(operands[4] if "multicast::cluster" in parts else None, place, "u16")
    in_cluster = spaces[1] == "shared::cta"

    def step(wave: Wave, lanes: Lanes) -> None:
        if in_cluster:
            must_have_cluster(wave, place.by(lanes))
        masks = None if mask is None else mask(wave, lanes).tolist()
        rows = zip(*(each(wave, lanes).tolist() for each in (target, source, size, barrier)), strict=True)
        for number, (to, start, count, at) in enumerate(rows):
            with located(wave, place.by(lanes), number):
                check_bulk(instruction.opcode, count, destination=to, source=start)
            everywhere = [to >> 24] if masks is None else ranks(masks[number])
            start_load(
                Load(
                    place.site,
                    lanes.threads[number : number + 1],
                    instruction.opcode.partition(".shared")[0],
                    wave,
                    Side(spaces[1], units(start, count), BULK_UNIT),
                    np.ones(count // BULK_UNIT, bool),
                    np.zeros(BULK_UNIT, np.uint8),
                    [
                        (Side("shared::cluster", units(in_cta(to, rank), count), BULK_UNIT), in_cta(at, rank))
                        for rank in everywhere
                    ]
                    if masks is not None
                    else [(Side("shared::cluster", units(to, count), BULK_UNIT), at)],
                    count,
                    reduction,
                )
            )

    return step


def _store(instruction: Instruction, place: Compiling) -> Step:
    """From shared to global memory, in a bulk group."""
    parts, operands = instruction.parts, list(instruction.operands)
    mask = _numbers(operands.pop() if "cp_mask" in parts else None, place, "u16")
    if "L2::cache_hint" in parts:
        operands.pop()
    reduction = reduction_of(instruction, place)
    target, source, size = place.address(operands[0]), place.address(operands[1]), place.read(operands[2], "u32")

    def step(wave: Wave, lanes: Lanes) -> None:
        masks = None if mask is None else mask(wave, lanes).tolist()
        rows = zip(*(each(wave, lanes).tolist() for each in (target, source, size)), strict=True)
        for number, (to, start, count) in enumerate(rows):
            with located(wave, place.by(lanes), number):
                check_bulk(instruction.opcode, count, destination=to, source=start)
            chosen_bytes = None if masks is None else copied_bytes(BULK_UNIT, masks[number])
            start_store(
                wave,
                place,
                one_lane(int(lanes.threads[number])),
                instruction.opcode.partition(".global")[0],
                Side("shared::cta", units(start, count), BULK_UNIT),
                Side("global", units(to, count), BULK_UNIT, chosen_bytes),
                reduction,
            )

    return step


def start_store(
    wave: Wave,
    place: Compiling,
    lane: Lanes,
    engine: str,
    source: Side,
    target: Side,
    reduction: Reduction | None,
) -> None:
    """Put both halves of a store in flight, and into the thread's open bulk group."""
    reading = Reading(place.site, lane.threads, engine, wave, source)
    store = Store(place.site, lane.threads, engine, wave, reading, target, reduction, after=(reading,))
    wave.part(BulkGroups).add(store, lane.threads, reading)
    wave.start(reading)
    wave.start(store)


def _prefetch(instruction: Instruction, place: Compiling) -> Step:
    """A prefetch reads nothing that the kernel sees; its size and place must be right all the same."""
    source, size = place.address(instruction.operands[0]), place.read(instruction.operands[1], "u32")

    def step(wave: Wave, lanes: Lanes) -> None:
        rows = zip(source(wave, lanes).tolist(), size(wave, lanes).tolist(), strict=True)
        for number, (start, count) in enumerate(rows):
            with located(wave, place.by(lanes), number):
                check_bulk(instruction.opcode, count, source=start)

    return step


def units(start: int, count: int) -> Addresses:
    """The addresses of the units of 16 bytes of a run."""
    return np.uint64(start) + np.arange(0, count, BULK_UNIT, dtype=np.uint64)
