"""cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and their prefetch: boxes of tensors. PTX ISA 9.7.9.25.5."""

from __future__ import annotations

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.copies.bulk import start_store
from nvbackend.simulator.calls.copies.engines import Load, Reduction, Side, in_cta, rank_of, ranks, start_load
from nvbackend.simulator.calls.copies.tensor_maps import map_at
from nvbackend.simulator.calls.qualifiers import chosen, only
from nvbackend.simulator.copies.moves import Moves
from nvbackend.simulator.copies.reduction import can_reduce
from nvbackend.simulator.copies.rules import COPY_PLACE
from nvbackend.simulator.copies.tensor_map import TensorMap
from nvbackend.simulator.copies.tma import MODE_OF_MAP, fill, moves
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes, one_lane
from nvbackend.simulator.machine.wave import Reader, Step, Wave
from nvbackend.simulator.sync.faults import located

_MBARRIER = "mbarrier::complete_tx::bytes"
_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_KNOWN = (
    *("async", "bulk", "prefetch", "tensor", "1d", "2d", "3d", "4d", "5d", "L2", "shared::cluster", "shared::cta"),
    *("global", "bulk_group", _MBARRIER, "multicast::cluster", "cta_group::1", "cta_group::2", "L2::cache_hint"),
    *("reduce", *_OPERATIONS, *MODE_OF_MAP),
)


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of a copy of boxes."""
    only(place, _KNOWN)
    parts = instruction.parts
    if "prefetch" in parts:
        return _prefetch(instruction, place)
    return _load(instruction, place) if _MBARRIER in parts else _store(instruction, place)


@dataclass(frozen=True, slots=True)
class _Box:
    """The operand `[map, {coordinates}]` and the mode of the instruction."""

    place: Compiling
    what: str
    mode: str
    tensor_map: Reader
    coordinates: Reader

    def at(self, wave: Wave, lanes: Lanes) -> list[tuple[TensorMap, list[int]]]:
        """The map and the coordinates of each lane."""
        addresses = self.tensor_map(wave, lanes).tolist()
        coordinates = self.coordinates(wave, lanes).view(np.int32).T.tolist()
        by = self.place.by(lanes)
        return [
            (map_at(wave, by, number, address), given)
            for number, (address, given) in enumerate(zip(addresses, coordinates, strict=True))
        ]


def _box(instruction: Instruction, place: Compiling, number: int) -> _Box:
    operand = instruction.operands[number]
    mode = chosen(place, MODE_OF_MAP, "tile")
    what = instruction.opcode
    return _Box(place, what, mode, place.address(operand), place.coordinates(operand))


def _load(instruction: Instruction, place: Compiling) -> Step:
    parts, operands = instruction.parts, list(instruction.operands)
    if "L2::cache_hint" in parts:
        operands.pop()
    target, box, barrier = place.address(operands[0]), _box(instruction, place, 1), place.address(operands[2])
    rest = operands[3:]
    takes_offsets = box.mode in ("im2col", "im2col::w", "im2col::w::128")
    offsets = place.reads(rest.pop(0), "u16") if takes_offsets else None
    mask = place.read(rest.pop(0), "u16") if "multicast::cluster" in parts else None
    is_pair = "cta_group::2" in parts

    def step(wave: Wave, lanes: Lanes) -> None:
        masks = None if mask is None else mask(wave, lanes).tolist()
        adds = [()] * lanes.count if offsets is None else offsets(wave, lanes).T.tolist()
        rows = zip(target(wave, lanes).tolist(), barrier(wave, lanes).tolist(), box.at(wave, lanes), adds, strict=True)
        for number, (to, at, (tensor_map, coordinates), add) in enumerate(rows):
            with located(wave, place.by(lanes), number):
                found = moves(box.what, tensor_map, box.mode, coordinates, to, add)
                if not is_pair and masks is None:
                    _check_barrier(box.what, to, at)
            everywhere = [rank_of(to)] if masks is None else ranks(masks[number])
            targets = [
                (_shared(found, to, rank), _barrier(at, rank, is_pair) if masks is not None else at)
                for rank in everywhere
            ]
            start_load(
                Load(
                    place.site,
                    lanes.threads[number : number + 1],
                    "TMA load",
                    wave,
                    _global(found),
                    found.inside,
                    fill(tensor_map, found.size),
                    targets,
                    found.bytes,
                    swizzle=tensor_map.swizzle,
                    rounded=tensor_map.kind.rounded,
                )
            )

    return step


def _check_barrier(what: str, to: int, at: int) -> None:
    if rank_of(at) != rank_of(to):
        COPY_PLACE.fail(
            what=what,
            problem=f"its box is in CTA {rank_of(to)} of the cluster, its mbarrier in CTA {rank_of(at)}",
            fix="use an mbarrier of the CTA that gets the box",
        )


def _barrier(address: int, rank: int, is_pair: bool) -> int:
    """The mbarrier of a multicast: in each CTA, or of cta_group::2 in the CTA of each pair that `address` names."""
    return in_cta(address, rank & ~1 | rank_of(address) & 1 if is_pair else rank)


def _shared(found: Moves, to: int, rank: int) -> Side:
    moved = found.shared + (in_cta(to, rank) - to)
    return Side("shared::cluster", moved.astype(np.uint64), found.size)


def _global(found: Moves) -> Side:
    return Side("global", found.tensor[found.inside].astype(np.uint64), found.size)


def _store(instruction: Instruction, place: Compiling) -> Step:
    parts = instruction.parts
    box, source = _box(instruction, place, 0), place.address(instruction.operands[1])
    operation = chosen(place, _OPERATIONS) if parts[1] == "reduce" else ""

    def step(wave: Wave, lanes: Lanes) -> None:
        rows = zip(source(wave, lanes).tolist(), box.at(wave, lanes), strict=True)
        for number, (start, (tensor_map, coordinates)) in enumerate(rows):
            with located(wave, place.by(lanes), number):
                found = moves(box.what, tensor_map, box.mode, coordinates, start, load=False)
                _check_operation(box.what, operation, tensor_map)
            reduction = Reduction(operation, tensor_map.element) if operation else None
            pieces = Side("shared::cta", found.shared[found.inside].astype(np.uint64), found.size)
            lane = one_lane(int(lanes.threads[number]))
            engine = "TMA reduction" if operation else "TMA store"
            start_store(wave, place, lane, engine, pieces, _global(found), reduction)

    return step


def _check_operation(what: str, operation: str, tensor_map: TensorMap) -> None:
    if operation and not can_reduce(operation, tensor_map.element):
        COPY_PLACE.fail(
            what=what,
            problem=f"{operation} of elements of {tensor_map.element} does not exist",
            fix="use another operation, or a map of another element type",
        )


def _prefetch(instruction: Instruction, place: Compiling) -> Step:
    """It moves nothing that the kernel sees; map and place must be right all the same."""
    box = _box(instruction, place, 0)
    takes_offsets = box.mode in ("im2col", "im2col::w", "im2col::w::128")
    offsets = place.reads(instruction.operands[1], "u16") if takes_offsets else None

    def step(wave: Wave, lanes: Lanes) -> None:
        adds = [()] * lanes.count if offsets is None else offsets(wave, lanes).T.tolist()
        for number, ((tensor_map, coordinates), add) in enumerate(zip(box.at(wave, lanes), adds, strict=True)):
            with located(wave, place.by(lanes), number):
                moves(box.what, tensor_map, box.mode, coordinates, 0, add)

    return step
