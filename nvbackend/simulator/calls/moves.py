"""Moves: registers, constants, addresses, packing and unpacking; addresses between state spaces. PTX ISA 9.7.9."""

from __future__ import annotations

import numpy as np

from nvbackend.ptx.syntax import Instruction, Operand, Vector
from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.types import bits, container
from nvbackend.simulator.machine.wave import Step, Wave
from nvbackend.simulator.memory import windows

_WINDOWS = {"shared": windows.SHARED, "local": windows.LOCAL, "global": 0, "const": 0, "param": 0}


def compile(instruction: Instruction, place: Compiling) -> Step:
    """mov, cvta, isspacep, mapa, getctarank."""
    by_opcode = {"mov": _mov, "cvta": _cvta, "isspacep": _isspacep, "mapa": _mapa, "getctarank": _rank}
    opcode = instruction.parts[0]
    return by_opcode[opcode](instruction, place) if opcode in by_opcode else place.unknown(opcode)


def _mov(instruction: Instruction, place: Compiling) -> Step:
    target, source = instruction.operands
    type = instruction.parts[-1]
    if isinstance(target, Vector) or isinstance(source, Vector):
        return (
            _unpack(target, source, type, place) if isinstance(target, Vector) else _pack(target, source, type, place)
        )
    if len(place.elements(target)) > 1:
        read_all, write_all = place.reads(source, type), place.writes(target, type)
        return _copy_of(read_all, write_all)
    found, register = place.symbols.slot(source, type), place.symbols.register(target)
    if found is None or found.convert is not None or register is None or register[1] is not container(type):
        return _copy_of(place.read(source, type), place.write(target, type))
    return _alias(found.slot, register[0])


def _alias(source: int, target: int) -> Step:
    """The register's array is the other one's: arrays of registers are never written in place."""

    def step(wave: Wave, lanes: Lanes) -> None:
        registers = wave.registers
        if lanes.whole:
            registers[target] = registers[source]
        else:
            changed = registers[target].copy()
            changed[lanes.index] = registers[source][lanes.index]
            registers[target] = changed

    return step


def _copy_of(read: object, write: object) -> Step:
    def step(wave: Wave, lanes: Lanes) -> None:
        write(wave, lanes, read(wave, lanes))  # type: ignore[operator]

    return step


def _pack(target: Operand, source: Operand, type: str, place: Compiling) -> Step:
    """The first element comes into the low bits."""
    count = len(place.elements(source))
    part = _part_type(type, count, place)
    readers = [place.read(element, part) for element in place.elements(source)]
    write = place.write(target, type)

    def step(wave: Wave, lanes: Lanes) -> None:
        parts = np.stack([reader(wave, lanes) for reader in readers], axis=1)
        write(wave, lanes, joined(parts, type))

    return step


def _unpack(target: Vector, source: Operand, type: str, place: Compiling) -> Step:
    elements = place.elements(target)
    if isinstance(source, Vector):
        place.unknown("a move from braces to braces")
    part = _part_type(type, len(elements), place)
    read = place.read(source, type)
    writers = [place.write(element, part) for element in elements]
    dtype = container(part)

    def step(wave: Wave, lanes: Lanes) -> None:
        whole = np.ascontiguousarray(read(wave, lanes))
        parts = whole.view(dtype).reshape(lanes.count, -1)
        for number, writer in enumerate(writers):
            writer(wave, lanes, np.ascontiguousarray(parts[:, number]))

    return step


def joined(parts: Bits, type: str) -> Bits:
    """(n, count) elements as one value each."""
    whole: Bits = np.ascontiguousarray(parts).view(container(type))
    return whole if bits(type) == 128 else whole[:, 0]


def _part_type(type: str, count: int, place: Compiling) -> str:
    width = bits(type)
    if width is None or count not in (2, 4, 8) or width // count not in (8, 16, 32, 64):
        place.unknown(f"{count} elements of {type}")
    return f"b{width // count}"


def _cvta(instruction: Instruction, place: Compiling) -> Step:
    parts = instruction.parts
    to_space = parts[1] == "to"
    space = parts[2 if to_space else 1]
    if space.partition("::")[0] not in _WINDOWS:
        place.unknown(space)
    window = np.uint64(_WINDOWS[space.partition("::")[0]])
    read, write = place.read(instruction.operands[1], "u64"), place.write(instruction.operands[0], "u64")

    def step(wave: Wave, lanes: Lanes) -> None:
        addresses = read(wave, lanes)
        write(wave, lanes, addresses - window if to_space else addresses + window)

    return step if window else _copy_of(read, write)


def _isspacep(instruction: Instruction, place: Compiling) -> Step:
    space = instruction.parts[1]
    read, write = place.read(instruction.operands[1], "u64"), place.write(instruction.operands[0], "pred")

    def step(wave: Wave, lanes: Lanes) -> None:
        addresses = read(wave, lanes)
        shared = addresses - np.uint64(windows.SHARED)
        if space in ("shared", "shared::cta"):
            rank = wave.rank(lanes.threads).astype(np.uint64)
            found = (shared < windows.SHARED_BYTES) & (shared >> np.uint64(windows.RANK_SHIFT) == rank)
        elif space == "shared::cluster":
            found = shared < windows.SHARED_BYTES
        elif space == "local":
            found = addresses - np.uint64(windows.LOCAL) < windows.LOCAL_BYTES
        elif space == "global":
            found = (addresses >= windows.GLOBALS) & (addresses < windows.LOCAL)
        else:
            first = windows.CONSTANTS if space == "const" else windows.PARAMETERS
            found = (addresses >= first) & (addresses < first + 0x0F00_0000)
        write(wave, lanes, found)

    known = ("shared", "shared::cta", "shared::cluster", "local", "global", "const", "param", "param::entry")
    return step if space in known else place.unknown(space)


def _mapa(instruction: Instruction, place: Compiling) -> Step:
    """The address that the same variable has in the CTA of another rank."""
    type = instruction.parts[-1]
    is_shared = instruction.parts[1].startswith("shared")
    target, source, rank = instruction.operands
    read, read_rank, write = place.read(source, "u64"), place.read(rank, "u32"), place.write(target, type)
    window = np.uint64(0 if is_shared else windows.SHARED)
    low = np.uint64((1 << windows.RANK_SHIFT) - 1)
    dtype = container(type)

    def step(wave: Wave, lanes: Lanes) -> None:
        offsets = read(wave, lanes) - window & low
        ranks = read_rank(wave, lanes).astype(np.uint64) << np.uint64(windows.RANK_SHIFT)
        write(wave, lanes, ((ranks | offsets) + window).astype(dtype))

    return step


def _rank(instruction: Instruction, place: Compiling) -> Step:
    """The rank of the CTA that a shared address is in."""
    is_shared = instruction.parts[1].startswith("shared")
    read, write = place.read(instruction.operands[1], "u64"), place.write(instruction.operands[0], "u32")
    window = np.uint64(0 if is_shared else windows.SHARED)

    def step(wave: Wave, lanes: Lanes) -> None:
        write(wave, lanes, (read(wave, lanes) - window >> np.uint64(windows.RANK_SHIFT)).astype(np.uint32))

    return step
