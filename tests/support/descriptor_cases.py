"""Operands in shared memory for a GPU to multiply: canonical tiles, and others that a descriptor can say as well.

An operand is a partitioned layout (MMA, MMA_M or MMA_N, MMA_K, PIPE) over a piece of memory of random elements; the
layout says what its matrix is. So an element that is read from elsewhere is another number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nvbackend import ElementType, Major, SwizzleMode, f16, s8, tf32
from nvbackend.layout import (
    ComposedLayout,
    DescriptorIterator,
    Layout,
    Swizzle,
    cosize,
    gmma_atom,
    make_layout,
    size,
    smem_desc,
    tile_to_shape,
    tiled_divide,
)
from tests.support.smem_addresses import CORE_MATRICES, operand_layout

REGION = 64 * 1024
"""Bytes of shared memory for each operand."""
BITS = {"NONE": 0, "B32": 1, "B64": 2, "B128": 3}


@dataclass(frozen=True)
class Operand:
    """A tile that instructions read: `layout` from `address`, bytes behind the start of the operand's region."""

    name: str
    major: Major
    element: ElementType
    layout: ComposedLayout
    address: int = 0

    @property
    def rests(self) -> tuple[int, int, int]:
        """How many operands along M or N, along K, and how many stages."""
        return size(self.layout, 1), size(self.layout, 2), size(self.layout, 3)

    @property
    def bytes(self) -> int:
        """What it takes of its region, whole swizzle patterns."""
        first = self.layout.offset if isinstance(self.layout.offset, int) else 0
        return _whole_periods(self.address + (first + cosize(self.layout)) * self.element.bits // 8)

    def descriptors(self, region: int) -> DescriptorIterator:
        """Its descriptors where its region starts at shared address `region`."""
        return smem_desc(self.major, self.layout, self.element, address=region + self.address)

    def matrix(self, memory: np.ndarray[Any, Any], row: int, stage: int) -> np.ndarray[Any, Any]:
        """What `memory`, the region's elements, holds for a block of M or N and a stage: (rows, all K)."""
        first = self.address * 8 // self.element.bits
        blocks = []
        for step in range(self.rests[1]):
            operand = self.layout(None, row, step, stage)
            columns = size(operand, 0, 1)
            blocks.append(memory[first + np.array(operand.offsets())].reshape(columns, -1).T)
        return np.concatenate(blocks, axis=1)


def canonical(element: ElementType, major: Major, rows: int, steps: int) -> Iterator[Operand]:
    """Tiles of the four atoms in both orders, of several operands and stages."""
    k = 256 // element.bits
    for mode, order in itertools.product(SwizzleMode, ((1, 2, 3), (2, 1, 3))):
        atom = gmma_atom(major, mode, element)
        tall = math.lcm(rows, size(atom, 0))
        if tall not in (rows, size(atom, 0)):
            continue  # an operand would be one and a half rows of the pattern
        for blocks, stages in ((1, 1), (1, 2), (2, 1)):
            shape = (tall * blocks, k * steps, stages)
            if math.prod(shape) * element.bits // 8 <= REGION:
                tile = tile_to_shape(atom, shape, order)
                name = f"{mode.name} {shape} {order}"
                yield Operand(name, major, element, tiled_divide(tile, (rows, k)))


@dataclass(frozen=True)
class _Strides:
    """Bytes: `panel` from one stretch of K to the next that no offset leads over, `stage` to a second one (0: none)."""

    name: str
    lbo: int
    sbo: int
    panel: int
    stage: int = 0


def unusual(element: ElementType, major: Major, rows: int, steps: int) -> Iterator[Operand]:
    """Offsets that no atom tiled to a shape has: padding, interleaved stages, the same lines again and again."""
    for mode, wide in CORE_MATRICES.items():
        if major is Major.MN and rows * element.bits % (128 * wide):
            continue
        strides = _k_major(mode, rows // 8) if major is Major.K else _mn_major(mode, rows * element.bits // 128 // wide)
        for one in strides:
            yield Operand(f"{mode} {one.name}", major, element, _walk(element, major, mode, rows, one, steps))


def _k_major(mode: str, groups: int) -> Iterator[_Strides]:
    """`groups` of eight rows."""
    core = 128 * CORE_MATRICES[mode]
    if mode == "NONE":
        yield _Strides("k inside", 128, 256, 256 * groups)
        yield _Strides("k outside", 128 * groups, 128, 256 * groups)
        yield _Strides("padded by a chunk", 144 * groups + 16, 144, 2 * (144 * groups + 16))
        yield _Strides("interleaved stages", 256 * groups, 256, 512 * groups, 128)
        yield _Strides("the same lines", 128, 0, 256)
        return
    yield _Strides("dense", 16, core, core * groups)
    yield _Strides("padded by a period", 16, 2 * core, 2 * core * groups + core)
    yield _Strides("padded by a chunk", 16, core + 16, _whole_periods((core + 16) * groups))
    yield _Strides("interleaved stages", 16, 2 * core, 2 * core * groups, core)
    yield _Strides("the same lines", 16, 0, core)


def _mn_major(mode: str, groups: int) -> Iterator[_Strides]:
    """`groups` of rows that are a row of the pattern."""
    core = 128 * CORE_MATRICES[mode]
    if mode == "NONE":
        yield _Strides("k inside", 128, 256, 256 * groups)
        yield _Strides("k outside", 128 * groups, 128, 256 * groups)
        yield _Strides("padded by a chunk", 144 * groups + 16, 144, 2 * (144 * groups + 16))
        yield _Strides("interleaved stages", 256 * groups, 256, 512 * groups, 128)
        yield _Strides("the same k", 0, 128, 128 * groups)
        return
    yield _Strides("k inside", 2 * core, core, 2 * core * groups)
    yield _Strides("k outside", core, core * groups, 2 * core * groups)
    yield _Strides("padded by a period", 3 * core, core, 3 * core * groups)
    yield _Strides("padded by a chunk", 2 * core + 16, core, _whole_periods((2 * core + 16) * groups))
    yield _Strides("interleaved stages", 4 * core, 2 * core, 4 * core * groups, core)
    yield _Strides("the same k", core, 0, core * groups)


def _whole_periods(bytes: int) -> int:
    return -(-bytes // 1024) * 1024


def _walk(element: ElementType, major: Major, mode: str, rows: int, by: _Strides, steps: int) -> ComposedLayout:
    """One operand a K step: inside a row of the pattern where there is room, then from stretch to stretch."""
    bits, k_major = element.bits, major is Major.K
    operand = operand_layout(k_major, mode, bits, (rows, 256 // bits), by.lbo, by.sbo)
    inner = max(1, CORE_MATRICES[mode] // 2) if k_major else 1
    along_k = Layout((inner, steps // inner), (256 // bits, by.panel * 8 // bits))
    stages = Layout(2, by.stage * 8 // bits) if by.stage else Layout(1, 0)
    return ComposedLayout(in_elements(mode, bits), 0, make_layout(operand, Layout(1, 0), along_k, stages))


def in_elements(mode: str, bits: int) -> Swizzle:
    """The swizzle of a mode for indices of elements of at least a byte."""
    return Swizzle(BITS[mode], 4, 3).upcast(bits // 8)


def inside_rows(element: ElementType, major: Major, rows: int, steps: int) -> Iterator[Operand]:
    """K-major operands that start at any chunk of a row that leaves room for them."""
    bits = element.bits
    for mode in ("B64", "B128"):
        core = 128 * CORE_MATRICES[mode]
        operand = operand_layout(major is Major.K, mode, bits, (rows, 256 // bits), 16, core)
        along_k = Layout(steps, core * (rows // 8) * 8 // bits)
        layout = make_layout(operand, Layout(1, 0), along_k, Layout(1, 0))
        for chunk in range(1, CORE_MATRICES[mode] - 1):
            swizzled = ComposedLayout(in_elements(mode, bits), chunk * 128 // bits, layout)
            yield Operand(f"{mode} from chunk {chunk}", major, element, swizzled)


def shifted(element: ElementType, major: Major, rows: int, steps: int) -> Iterator[Operand]:
    """Tiles whose pattern starts at any multiple of 128 bytes: base offsets."""
    for mode in ("B32", "B64", "B128"):
        wide = CORE_MATRICES[mode]
        if major is Major.MN and rows * element.bits % (128 * wide):
            continue
        core, groups = 128 * wide, rows // 8 if major is Major.K else rows * element.bits // 128 // wide
        lbo, panel = (16, core * groups) if major is Major.K else (2 * core, 2 * core * groups)
        layout = _walk(element, major, mode, rows, _Strides("", lbo, core, panel), steps)
        for place in range(1, core // 128):
            yield Operand(f"{mode} shifted by {128 * place}", major, element, layout, address=128 * place)


@dataclass(frozen=True)
class Configuration:
    """An instruction: types, N, majorness of A and B; and how many K steps are multiplied."""

    element: ElementType
    n: int
    steps: int
    majors: tuple[Major, Major]

    def operands(self, place: int) -> list[Operand]:
        """Everything to try as A (0) or B (1)."""
        given = self._given(place)
        rows = inside_rows(*given) if given[1] is Major.K else ()
        return [one for one in (*canonical(*given), *unusual(*given), *rows) if one.bytes <= REGION]

    def shifted(self, place: int) -> list[Operand]:
        """Those whose patterns start between multiples of their period."""
        return [one for one in shifted(*self._given(place)) if one.bytes <= REGION]

    def _given(self, place: int) -> tuple[ElementType, Major, int, int]:
        return self.element, self.majors[place], (64, self.n)[place], self.steps

    def __str__(self) -> str:
        return f"{self.element}-n{self.n}-k{self.steps}-{self.majors[0].value}-{self.majors[1].value}"


_K = (Major.K, Major.K)
CONFIGURATIONS = [
    *(Configuration(f16, 64, 8, majors) for majors in itertools.product(Major, Major)),
    *(Configuration(f16, n, 4, (Major.MN, major)) for n in (8, 24, 192) for major in Major),
    Configuration(f16, 256, 4, _K),
    *(Configuration(element, n, 8, _K) for element in (s8, tf32) for n in (8, 64)),
    *(Configuration(element, 192, 4, _K) for element in (s8, tf32)),
]
