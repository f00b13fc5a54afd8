"""Copies between memory and the registers of an MMA: ldmatrix where possible, else loads and stores that fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.coordinates import Inside
from nvbackend.builder.tiles.register_tensor import RegisterTensor
from nvbackend.builder.tiles.tensor import Tensor, Walker
from nvbackend.builder.tiles.tiled_copy import copy_part
from nvbackend.builder.values.values import SHARED_SPACE
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import REGISTER_BITS
from nvbackend.layout import AnyLayout, ComposedLayout, Layout, make_layout, size, zipped_divide
from nvbackend.tiled import (
    CopyAtom,
    MmaOperand,
    Partition,
    TiledCopy,
    TiledMMA,
    ldmatrix_copy,
    universal_copy,
)
from nvbackend.tiled.vectorize import access_faults

PartCut: TypeAlias = "Callable[[AnyLayout], Partition]"

_MATRIX_COUNTS = (4, 2, 1)
_HALF_BITS = 16
_WIDEST_BITS = 128


def in_matrices(operand: MmaOperand, mma: TiledMMA, thread: Any, tile: Tensor) -> tuple[TiledCopy, Tensor] | None:
    """The ldmatrix that reads a tile of A or B, of as many matrices as possible, and the thread's part; or None."""
    if tile._memory.space != SHARED_SPACE or tile.element.bits > REGISTER_BITS:
        return None
    orders = (False, True) if tile.element.bits == _HALF_BITS else (False,)
    for transposed in orders:
        for count in _MATRIX_COUNTS:
            atom = ldmatrix_copy(tile.element, count, transposed=transposed)
            try:
                copy = TiledCopy(atom, mma.layout_tv(operand), mma.extents(operand))
                part = tile.partition(copy.get_slice(thread).partition_S)
            except DiagnosticError:
                continue  # the atoms' values do not fill whole matrices of this kind
            if not access_faults(atom, part.layout, "the tile", Walker(part).align):
                return copy, part
    return None


def load_fitting(
    k: FunctionBuilder, tile: Tensor, registers: RegisterTensor, cut: PartCut, where: Inside | None
) -> None:
    """Load a thread's part of a tile, ((V), ...) as `cut` gives it, into registers of the same shape."""
    atom, count = fitting(tile, cut, where)
    part, inside = _cut_with(regrouped(cut, count), tile, where)
    copy_part(k, atom, part, registers.retile(lambda layout: grouped(layout, count)), where=inside)


def store_fitting(
    k: FunctionBuilder, registers: RegisterTensor, tile: Tensor, cut: PartCut, where: Inside | None
) -> None:
    """Store registers to a thread's part of a tile, as `load_fitting` loads them."""
    atom, count = fitting(tile, cut, where)
    part, inside = _cut_with(regrouped(cut, count), tile, where)
    copy_part(k, atom, registers.retile(lambda layout: grouped(layout, count)), part, where=inside)


def _cut_with(cut: PartCut, tile: Tensor, where: Inside | None) -> tuple[Tensor, Inside | None]:
    return tile.partition(cut), None if where is None else where.partition(cut)


def regrouped(cut: PartCut, count: int) -> PartCut:
    """The same part with `count` values of its first mode at a time: ((count, rest), ...)."""

    def group(layout: AnyLayout) -> Partition:
        part = cut(layout)
        plain = grouped(part.plain, count)
        own = part.layout
        return Partition(own.with_layout(lambda _: plain) if isinstance(own, ComposedLayout) else plain, part.offset)

    return group


def grouped(layout: Layout, count: int) -> Layout:
    """A fragment's layout with `count` values of its first mode at a time."""
    own, *rest = layout.modes
    return make_layout(zipped_divide(own, count), *rest)


def fitting(tile: Tensor, cut: PartCut, where: Inside | None) -> tuple[CopyAtom, int]:
    """The widest load or store that a thread's part of a tile allows, and how many elements that is.

    Raises what the narrowest one breaks, when it is copied.
    """
    element = tile.element
    values = size(cut(tile.layout).plain[0])
    count = min(values, _WIDEST_BITS // element.bits)
    while count > 1:
        if values % count == 0:
            atom = universal_copy(element, count * element.bits)
            part = tile.partition(regrouped(cut, count))
            torn = where is not None and where.partition(regrouped(cut, count))._torn() is not None
            if not torn and not access_faults(atom, part.layout, "the tile", Walker(part).align):
                return atom, count
        count //= 2
    return universal_copy(element), 1
