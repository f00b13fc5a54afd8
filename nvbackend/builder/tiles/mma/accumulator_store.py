"""From accumulators straight to global memory, to where the layout of C says that a thread's elements are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nvbackend.atoms.atom import accumulator as accumulator_layout
from nvbackend.builder.core.memory import Address
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.coordinates import Cut
from nvbackend.builder.tiles.tensor import Tensor, Walker, make_tensor
from nvbackend.builder.values.accumulator import Accumulator, elements_of
from nvbackend.builder.values.values import GLOBAL_SPACE, Operand, Value
from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.mma.wgmma import M as ROWS
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.layout import AnyLayout, Layout, composition, size
from nvbackend.tiled import Partition

if TYPE_CHECKING:
    from nvbackend.builder.tiles.axpby import Axpby

PAIR = 2
"""Neighbours of a row that a thread has side by side."""
_BATCH = 8
"""Accesses of C that are loaded before the first of them is used."""

STORE_TARGET = Rule(
    id="accumulator.store",
    message="accumulator {name} of {element} cannot be stored to {given!r}",
    fix="give an address of this kernel's global memory that holds {element}, or convert: acc.values() and .to(...)",
    why="The registers would be written as another type, or to another memory.",
    reference="PTX ISA 9.7.15.5.1 (register fragments)",
)
STORE_STRIDE = Rule(
    id="accumulator.stride",
    message="a stride of {given} elements a row: two columns are stored in one access, so rows begin at even elements",
    fix="pad the rows to {nearest} elements, or store element by element with acc.position()",
    why="Every other row would be misaligned; the access faults at run time, and ends the context.",
    reference="PTX ISA 6.4.1 (alignment of vectors)",
)
STORE_OVERLAP = Rule(
    id="accumulator.overlap",
    message="the stride from row to row is {given} elements, and the rows of {name} have {columns} each",
    fix="give the elements from the start of a row of the matrix to the start of the next, {columns} or more",
    why="Rows would be stored over one another, by threads that do not wait for each other.",
    reference="PTX ISA 9.7.15.5.1 (register fragments)",
)


def store_accumulators(
    k: FunctionBuilder,
    accumulators: Sequence[Accumulator],
    target: Address,
    stride: Operand,
    shape: tuple[int, int],
    cut: Cut,
) -> None:
    """Write accumulators to the row-major tile of `shape` at `target`, each to its part of what `cut` gives of C.

    The part is ((elements of an atom), MMA_M, MMA_N), the accumulators in its order. Raises accumulator.store,
    accumulator.stride, accumulator.overlap and memory.alignment.
    """
    element = accumulators[0].element
    if target.element is not element or target.space != GLOBAL_SPACE or target._k is not k.core:
        STORE_TARGET.fail(name=accumulators[0].name, element=element, given=target)
    _check_stride(accumulators[0], stride, shape)
    part = _part(k, target, stride, shape, cut)
    walker, paired = Walker(part), _in_pairs(part)
    align = _alignment(target, paired=paired)
    for place, accumulator in enumerate(accumulators):
        for first, values in _accesses(accumulator, paired=paired):
            address = walker.address((first, *_atom(part, place)), align=align)
            address.cast(values[0].type).store(*values)


def axpby_accumulators(
    k: FunctionBuilder,
    accumulators: Sequence[Accumulator],
    form: Axpby,
    d: tuple[Address, Operand],
    c: tuple[Address, Operand],
    shape: tuple[int, int],
    cut: Cut,
) -> None:
    """Write what `form` makes of accumulators and C to D, both row-major tiles of `shape`: (first element, stride).

    The loads of several accesses go before their stores, so that they wait for memory together. Raises as
    `store_accumulators` does.
    """
    for address, stride in (d, c):
        if address.space != GLOBAL_SPACE or address._k is not k.core:
            STORE_TARGET.fail(name=accumulators[0].name, element=address.element, given=address)
        _check_stride(accumulators[0], stride, shape)
    parts = [_part(k, *operand, shape, cut) for operand in (d, c)]
    paired = _in_pairs(parts[0])
    count = PAIR if paired else 1
    target, source = (Walker(part) for part in parts)
    aligns = [_alignment(operand[0], paired=paired) for operand in (d, c)]
    for place, accumulator in enumerate(accumulators):
        elements = elements_of(accumulator)
        for begin in range(0, len(elements), count * _BATCH):
            firsts = range(begin, min(begin + count * _BATCH, len(elements)), count)
            places = [(first, *_atom(parts[0], place)) for first in firsts]
            old: list[list[Value]] = [[] for _ in places]
            if form.reads_c:
                old = [source.address(place, align=aligns[1]).load(count) for place in places]
            for first, spot, addends in zip(firsts, places, old, strict=True):
                pairs = itertools.zip_longest(elements[first : first + count], addends)
                target.address(spot, align=aligns[0]).store(*(form.of(*pair) for pair in pairs))


def _check_stride(accumulator: Accumulator, stride: Operand, shape: tuple[int, int]) -> None:
    if isinstance(stride, int) and stride % PAIR:
        STORE_STRIDE.fail(given=stride, nearest=stride + 1)
    if isinstance(stride, int) and stride < shape[1]:
        STORE_OVERLAP.fail(given=stride, name=accumulator.name, columns=shape[1])


def _part(k: FunctionBuilder, first: Address, stride: Operand, shape: tuple[int, int], cut: Cut) -> Tensor:
    strides: tuple[Any, int] = (stride, 1)
    return make_tensor(k, first, Layout(shape, strides), multiple_of=PAIR).partition(cut)


def _alignment(first: Address, *, paired: bool) -> int:
    return min(first.element.bytes_for(PAIR if paired else 1), first.align)


def _accesses(accumulator: Accumulator, *, paired: bool) -> Iterator[tuple[int, list[Value]]]:
    """What is stored at once: the first element, and the registers or elements of the access."""
    packed = accumulator.register_type is not accumulator.element  # two halves are a register, and one access
    values = accumulator.values() if paired else elements_of(accumulator)
    step = PAIR if paired and not packed else 1
    elements = PAIR if paired else 1
    for number, at in enumerate(range(0, len(values), step)):
        yield number * elements, values[at : at + step]


def _atom(part: Tensor, place: int) -> tuple[int, int]:
    along_m = size(part.layout, 1)
    return place % along_m, place // along_m


def _in_pairs(part: Tensor) -> bool:
    """Whether the first two elements of each pair are neighbours in memory: N is not permuted within them."""
    return all(term.part.plain(1, 0, 0) == (term.scale is None) for term in part._terms)


def of_one_atom(thread: Value | int, n: int) -> Cut:
    """What cuts a thread's part of C out of a 64 x `n` tile: ((elements), 1, 1)."""
    owners = accumulator_layout(ROWS, n, WARPGROUP_SIZE // WARP_SIZE)

    def cut(layout: AnyLayout) -> Partition:
        of_threads = composition(layout, owners)
        assert isinstance(of_threads, Layout)
        kept, start = of_threads.slice_and_offset(thread, None)
        whole = kept[0]
        return Partition(Layout((whole.shape, 1, 1), (whole.stride, 0, 0)), start)

    return cut
