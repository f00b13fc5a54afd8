"""wmma.load, wmma.store, wmma.mma. PTX ISA 9.7.14.4."""

from __future__ import annotations

import numpy as np

from nvbackend.ptx.syntax import Instruction, Operand
from nvbackend.simulator.calls.in_common import in_common
from nvbackend.simulator.calls.tensor.mma import register_type
from nvbackend.simulator.calls.together import chip, gathered, spread, warps
from nvbackend.simulator.events import Addresses, Bits, By
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.wave import Step, Wave
from nvbackend.simulator.tensor import elements, wmma
from nvbackend.simulator.tensor.descriptors import codes_of
from nvbackend.simulator.tensor.fragments import Fragment


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of wmma.load, wmma.store or wmma.mma."""
    action, *rest = instruction.parts[1:]
    if action == "mma":
        return _mma(instruction, place)
    found = wmma.spelling(tuple(rest[1:]))
    if action not in ("load", "store") or found is None or len(found.types) != 1 or not found.layouts:
        place.unknown("this form")
    space = next((part for part in rest if part in ("shared", "shared::cta", "global")), "")
    registers, memory = instruction.operands[:2] if action == "load" else instruction.operands[1::-1]
    stride = instruction.operands[2] if len(instruction.operands) > 2 else None
    name = found.types[0]
    matrix = _fragment(place, registers, wmma.extents(found.shape, rest[0]), name)
    lines = _Lines(place, matrix, found.layouts[0], elements.width(name), memory, stride)
    return _load(place, lines, registers, space) if action == "load" else _store(place, lines, registers, space)


def _fragment(place: Compiling, registers: Operand, extents: tuple[int, int], name: str) -> Fragment:
    return wmma.fragment(*extents, elements.width(name), len(place.elements(registers)))


class _Lines:
    """The rows (or columns, of a column-major matrix) of a matrix in memory, each of `size` bytes in one piece."""

    def __init__(
        self, place: Compiling, matrix: Fragment, layout: str, width: int, memory: Operand, stride: Operand | None
    ) -> None:
        self.matrix, self.width, self.by_column = matrix, width, layout == "col"
        count, length = (matrix.rows, matrix.columns)[:: -1 if self.by_column else 1]
        self.count, self.size = count, length * width // 8
        self._site, self._place = place.site, place
        self._address = place.address(memory)
        self._stride = place.read(stride, "u32") if stride is not None else None
        self._length = length

    def addresses(self, wave: Wave, lanes: Lanes) -> tuple[By, Addresses]:
        """Who reads or writes each line, and its address: (warps, lines)."""
        places = in_common(self._place, wave, lanes, self._address(wave, lanes), "p")
        threads, first = (spread(lanes, one).reshape(-1, WARP)[:, 0] for one in (lanes.threads, places))
        stride = np.full(len(first), self._length, np.uint64)
        if self._stride is not None:
            strides = in_common(self._place, wave, lanes, self._stride(wave, lanes), "stride")
            stride = spread(lanes, strides).reshape(-1, WARP)[:, 0].astype(np.uint64)
        step = stride * np.uint64(self.width) // np.uint64(8)
        addresses = first[:, None] + step[:, None] * np.arange(self.count).astype(np.uint64)
        return By(self._site, np.repeat(threads, self.count)), addresses

    def codes(self, data: Bits) -> Bits:
        """The matrices of the bytes of their lines, (warps, lines, size)."""
        codes = codes_of(data, self.width)
        return np.swapaxes(codes, 1, 2) if self.by_column else codes

    def data(self, codes: Bits) -> Bits:
        """`codes` undone; for elements of at least a byte."""
        lines = np.swapaxes(codes, 1, 2) if self.by_column else codes
        return np.ascontiguousarray(lines.astype(f"uint{self.width}")).view(np.uint8)


def _load(place: Compiling, lines: _Lines, registers: Operand, space: str) -> Step:
    write = place.writes(registers, register_type(lines.matrix))

    def load(wave: Wave, lanes: Lanes) -> None:
        by, addresses = lines.addresses(wave, lanes)
        data = _pieces(wave, by, space, addresses, lines.size)
        write(wave, lanes, gathered(lanes, lines.matrix.fill(lines.codes(data))))

    return warps(place, load)


def _pieces(wave: Wave, by: By, space: str, addresses: Addresses, size: int) -> Bits:
    """Lines of any size, read in pieces of at most 16 bytes."""
    piece = min(size, 16)
    starts = addresses[..., None] + np.arange(0, size, piece).astype(np.uint64)
    each = By(by.site, np.repeat(by.threads, starts.shape[-1]))
    return wave.read(each, space, starts, piece).reshape(*addresses.shape, size)


def _store(place: Compiling, lines: _Lines, registers: Operand, space: str) -> Step:
    read = place.reads(registers, register_type(lines.matrix))

    def store(wave: Wave, lanes: Lanes) -> None:
        by, addresses = lines.addresses(wave, lanes)
        data = lines.data(lines.matrix.matrix(spread(lanes, read(wave, lanes))))
        piece = min(lines.size, 16)
        starts = addresses[..., None] + np.arange(0, lines.size, piece).astype(np.uint64)
        each = By(by.site, np.repeat(by.threads, starts.shape[-1]))
        wave.write(each, space, starts, data.reshape(*starts.shape, piece))

    return warps(place, store)


def _mma(instruction: Instruction, place: Compiling) -> Step:
    found = wmma.spelling(instruction.parts[2:])
    product = wmma.product(found, chip(place)) if found is not None else None
    if found is None or product is None or len(instruction.operands) != 4:
        place.unknown("this form")
    names = {"d": product.d, "a": product.a, "b": product.b, "c": product.c}
    fragments = {
        name: _fragment(place, operand, wmma.extents(found.shape, name), kind)
        for operand, (name, kind) in zip(instruction.operands, names.items(), strict=True)
    }
    types = [register_type(fragment) for fragment in fragments.values()]
    write = place.writes(instruction.operands[0], types[0])
    readers = [place.reads(one, kind) for one, kind in zip(instruction.operands[1:], types[1:], strict=True)]

    def multiply(wave: Wave, lanes: Lanes) -> None:
        a, b, c = (
            fragments[name].matrix(spread(lanes, reader(wave, lanes)))
            for name, reader in zip("abc", readers, strict=True)
        )
        write(wave, lanes, gathered(lanes, fragments["d"].fill(product(a, b, c))))

    return warps(place, multiply)
