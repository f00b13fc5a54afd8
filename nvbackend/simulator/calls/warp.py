"""Exchange within a warp: shfl, vote, match, redux, elect, activemask; the warp's barrier. PTX ISA 9.7.9, 9.7.13."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.ptx.syntax import Instruction, Operand
from nvbackend.simulator.calls.gathering import Together, bits_of, gathered, present_bits, rows_of
from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.wave import Reader, Step, Waiting, Wave, Writer
from nvbackend.simulator.sync.members import Members, check_senders, members_of, names_all

_ALL = np.uint32(0xFFFFFFFF)
_UNDEFINED = np.uint32(0x7E5C0DED)
"""What a lane reads from one that takes no part. As a float and as an integer it is large, which shows in sums."""


def compile(instruction: Instruction, place: Compiling) -> Step:
    """shfl, vote, match, redux, elect, activemask, bar.warp."""
    return _COMPILERS[instruction.parts[0]](instruction, place)


def _mask(instruction: Instruction, place: Compiling) -> tuple[Reader | None, tuple[Operand, ...]]:
    """The member mask of a `.sync` form, and the operands before it."""
    operands = instruction.operands
    if "sync" not in instruction.parts:
        return None, operands
    return place.read(operands[-1], "b32"), operands[:-1]


def _targets(operand: Operand, place: Compiling, type: str) -> tuple[Writer, Writer | None]:
    first, second = place.pair(operand)
    return place.write(first, type), place.write(second, "pred") if second is not None else None


def _shfl(instruction: Instruction, place: Compiling) -> Step:
    mode = instruction.parts[-2]
    members, (target, source, lane, clamp) = _mask(instruction, place)
    if mode not in ("up", "down", "bfly", "idx"):
        place.unknown(f".{mode}")
    read, read_lane, read_clamp = (place.read(one, "b32") for one in (source, lane, clamp))
    write, write_pred = _targets(target, place, "b32")

    def run(wave: Wave, lanes: Lanes, mask: Members) -> None:
        b, c = read_lane(wave, lanes).astype(np.int64), read_clamp(wave, lanes).astype(np.int64)
        chosen, inside = _sources(mode, lanes.threads % WARP, b & 31, c)
        check_senders(place, wave, lanes, mask, chosen)
        values = lanes.by_warp(read(wave, lanes))[lanes.slots[0], chosen]
        takes_part = members_of(mask) & lanes.present[lanes.slots[0]]
        write(wave, lanes, np.where(takes_part[np.arange(lanes.count), chosen], values, _UNDEFINED))
        if write_pred is not None:
            write_pred(wave, lanes, inside)

    general = gathered(run, members, place)
    fixed_lane, fixed_clamp = place.constant(lane), place.constant(clamp)
    if fixed_lane is None or fixed_clamp is None or (members and not names_all(place, instruction.operands[-1])):
        return general
    own = np.arange(WARP)
    chosen, inside = _sources(mode, own, own * 0 + (fixed_lane & 31), own * 0 + fixed_clamp)

    def step(wave: Wave, lanes: Lanes) -> Waiting | None:
        """The same for every warp."""
        if not lanes.full_warps:
            return general(wave, lanes)
        wave.meet(place.by(lanes))
        write(wave, lanes, read(wave, lanes).reshape(-1, WARP).take(chosen, axis=1).reshape(-1))
        if write_pred is not None:
            write_pred(wave, lanes, np.tile(inside, lanes.count // WARP))
        return None

    return step


def _sources(
    mode: str, own: NDArray[np.int64], b: NDArray[np.int64], c: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The lane that each lane reads, and whether it is in its segment. PTX ISA 9.7.9.6 (shfl.sync)."""
    segment = c >> 8 & 31
    least = own & segment
    most = least | c & 31 & ~segment
    if mode == "up":
        place = own - b
        inside = place >= most
    else:
        place = own + b if mode == "down" else own ^ b if mode == "bfly" else least | b & ~segment
        inside = place <= most
    return np.where(inside, place, own), inside


def _vote(instruction: Instruction, place: Compiling) -> Step:
    mode = instruction.parts[-2]
    members, (target, source) = _mask(instruction, place)
    read = place.read(source, "pred")
    if mode not in ("all", "any", "uni", "ballot"):
        place.unknown(f".{mode}")
    write = place.write(target, "b32" if mode == "ballot" else "pred")

    def run(wave: Wave, lanes: Lanes, mask: Members) -> None:
        here = present_bits(lanes)[lanes.slots[0]] & mask
        votes = bits_of(lanes.by_warp(read(wave, lanes), False))[lanes.slots[0]] & mask
        if mode == "ballot":
            write(wave, lanes, votes)
        elif mode == "any":
            write(wave, lanes, votes != 0)
        else:
            write(wave, lanes, (votes == here) | (votes == 0) if mode == "uni" else votes == here)

    return gathered(run, members, place)


def _match(instruction: Instruction, place: Compiling) -> Step:
    mode, type = instruction.parts[1], instruction.parts[-1]
    members, (target, source) = _mask(instruction, place)
    read = place.read(source, type)
    if mode not in ("any", "all"):
        place.unknown(f".{mode}")
    write, write_pred = _targets(target, place, "b32")

    def run(wave: Wave, lanes: Lanes, mask: Members) -> None:
        values = read(wave, lanes)
        here = present_bits(lanes)[lanes.slots[0]] & mask
        same = bits_of(rows_of(lanes, values) == values[:, None]) & here
        if mode == "any":
            write(wave, lanes, same)
            return
        everybody = same == here
        write(wave, lanes, np.where(everybody, here, np.uint32(0)))
        if write_pred is not None:
            write_pred(wave, lanes, everybody)

    return gathered(run, members, place)


_INTEGERS: dict[str, tuple[Any, dict[str, int]]] = {
    "add": (np.add, {"u32": 0, "s32": 0}),
    "min": (np.minimum, {"u32": 2**32 - 1, "s32": 2**31 - 1}),
    "max": (np.maximum, {"u32": 0, "s32": -(2**31)}),
    "and": (np.bitwise_and, {"b32": 2**32 - 1}),
    "or": (np.bitwise_or, {"b32": 0}),
    "xor": (np.bitwise_xor, {"b32": 0}),
}
"""Of each reduction: the function, and by type the value that changes nothing."""


def _redux(instruction: Instruction, place: Compiling) -> Step:
    operation, type = instruction.parts[2], instruction.parts[-1]
    members, (target, source) = _mask(instruction, place)
    read, write = place.read(source, type), place.write(target, type)
    if type == "f32":
        reduce = _float_reduction(instruction, place)
    elif operation in _INTEGERS and type in _INTEGERS[operation][1]:
        function, neutral = _INTEGERS[operation][0], _INTEGERS[operation][1][type]
        number = np.int32 if type == "s32" else np.uint32

        def reduce(values: Bits, inside: NDArray[np.bool_]) -> Bits:
            found: Bits = function.reduce(np.where(inside, values.view(number), number(neutral)), axis=1)
            return found.astype(number).view(np.uint32)
    else:
        place.unknown(f"{operation}.{type}")

    def run(wave: Wave, lanes: Lanes, mask: Members) -> None:
        rows = rows_of(lanes, read(wave, lanes))
        inside = members_of(mask & present_bits(lanes)[lanes.slots[0]])
        write(wave, lanes, reduce(rows, inside))

    return gathered(run, members, place)


def _float_reduction(instruction: Instruction, place: Compiling) -> Callable[[Bits, NDArray[np.bool_]], Bits]:
    """min and max of f32; NaNs count only with `.NaN`, and the result is the canonical one where all are NaNs."""
    parts = instruction.parts
    if parts[2] not in ("min", "max") or any(part not in ("abs", "NaN") for part in parts[3:-1]):
        place.unknown(".".join(parts[2:]))
    is_min, is_abs, keeps_nan = parts[2] == "min", "abs" in parts, "NaN" in parts
    function: Any = (np.minimum if is_min else np.maximum) if keeps_nan else (np.fmin if is_min else np.fmax)

    def reduce(values: Bits, inside: NDArray[np.bool_]) -> Bits:
        numbers = values.view(np.float32)
        numbers = np.abs(numbers) if is_abs else numbers
        outside = np.float32(np.nan if not keeps_nan else np.inf if is_min else -np.inf)
        found = function.reduce(np.where(inside, numbers, outside), axis=1)
        bits: Bits = np.where(np.isnan(found), np.uint32(0x7FFFFFFF), found.astype(np.float32).view(np.uint32))
        return bits

    return reduce


def _elect(instruction: Instruction, place: Compiling) -> Step:
    """The lowest lane of the members is the leader."""
    members, (target,) = _mask(instruction, place)
    write, write_pred = _targets(target, place, "b32")

    def run(wave: Wave, lanes: Lanes, mask: Members) -> None:
        here = members_of(present_bits(lanes)[lanes.slots[0]] & mask)
        leader = here.argmax(axis=1)
        write(wave, lanes, leader.astype(np.uint32))
        if write_pred is not None:
            write_pred(wave, lanes, leader == lanes.threads % WARP)

    return gathered(run, members, place)


def _activemask(instruction: Instruction, place: Compiling) -> Step:
    write = place.write(instruction.operands[0], "b32")

    def step(wave: Wave, lanes: Lanes) -> None:
        write(wave, lanes, present_bits(lanes)[lanes.slots[0]])

    return step


def _barrier(instruction: Instruction, place: Compiling) -> Step:
    """bar.warp.sync."""
    if instruction.parts != ("bar", "warp", "sync"):
        place.unknown(instruction.opcode)
    together: Together = lambda _wave, _lanes, _members: None  # noqa: E731
    return gathered(together, place.read(instruction.operands[0], "b32"), place)


_COMPILERS: dict[str, Callable[[Instruction, Compiling], Step]] = {
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "elect": _elect,
    "activemask": _activemask,
    "bar": _barrier,
}
