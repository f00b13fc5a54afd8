"""tensormap.replace, tensormap.cp_fenceproxy, and the map that a copy names. PTX ISA 9.7.9, 9.7.13."""

from __future__ import annotations

import numpy as np

from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.qualifiers import chosen, only
from nvbackend.simulator.copies.rules import NOT_A_MAP
from nvbackend.simulator.copies.tensor_map import MAP_BYTES, TensorMap, blank, decode, problem_of, replaced
from nvbackend.simulator.events import By
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Step, Wave
from nvbackend.simulator.sync.faults import fail, located

_LISTS = ("box_dim", "global_dim", "global_stride", "element_stride")
_FIELDS = (
    *("global_address", "rank", *_LISTS, "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity"),
    "fill_mode",
)
_ALIGNMENT = 64


def map_at(wave: Wave, by: By, lane: int, address: int) -> TensorMap:
    """The tensor map at a generic address, which lane number `lane` of `by` gives. Raises simulator.tensor-map."""
    if address % _ALIGNMENT:
        fail(NOT_A_MAP, wave, by, lane, address=address, problem=f"it is not at a multiple of {_ALIGNMENT} bytes")
    one = By(by.site, by.threads[lane : lane + 1], None, "tensormap")
    found = decode(_read(wave, one, "", address))
    if found is None:
        fail(NOT_A_MAP, wave, by, lane, address=address, problem="nothing there was made one")
    problem = problem_of(found)
    if problem:
        fail(NOT_A_MAP, wave, by, lane, address=address, problem=problem)
    return found


def _read(wave: Wave, by: By, space: str, address: int) -> bytes:
    return wave.read(by, space, np.array([address], np.uint64), MAP_BYTES).tobytes()


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of an instruction on maps themselves."""
    if instruction.parts[1] == "replace":
        return _replace(instruction, place)
    if instruction.parts[1] == "cp_fenceproxy":
        return _copy(instruction, place)
    place.unknown(instruction.opcode)


def _replace(instruction: Instruction, place: Compiling) -> Step:
    only(place, ("replace", "tile", "global", "shared::cta", "b1024", "b32", "b64", *_FIELDS))
    operands, field = instruction.operands, chosen(place, _FIELDS)
    space, address = chosen(place, ("global", "shared::cta")), place.address(operands[0])
    ordinal = place.immediate(operands[1]) if field in _LISTS else 0
    value = place.read(operands[-1], instruction.parts[-1])

    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes)
        rows = zip(address(wave, lanes).tolist(), value(wave, lanes).tolist(), strict=True)
        for lane, (at, number) in enumerate(rows):
            one = place.by(lanes.where(np.arange(lanes.count) == lane))
            held = _read(wave, one, space, at)
            found = decode(held) or blank(held)
            if found is None:
                fail(NOT_A_MAP, wave, by, lane, address=at, problem="nothing there was made one")
            with located(wave, one):
                data = np.frombuffer(replaced(found, field, number, ordinal).encode(), np.uint8)
            wave.write(one, space, np.array([at], np.uint64), data.reshape(1, -1))

    return step


def _copy(instruction: Instruction, place: Compiling) -> Step:
    """tensormap.cp_fenceproxy: lane by lane the same copy, then a release to the tensor map proxy."""
    kind = ".".join(instruction.parts[1:])
    target, source = place.address(instruction.operands[0]), place.address(instruction.operands[1])

    def step(wave: Wave, lanes: Lanes) -> None:
        by = place.by(lanes)
        wave.meet(by)  # it is .sync.aligned: one lane may have made the map, and another one uses it
        data = wave.read(by, "shared::cta", source(wave, lanes), MAP_BYTES)
        wave.write(by, "global", target(wave, lanes), data)
        wave.meet(by)
        for observer in wave.observers:
            observer.fence(by, kind)

    return step
