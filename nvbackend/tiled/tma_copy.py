"""TMA copies of a tile: which box of global memory fills a layout in shared memory, and how many there are.

A box arrives in shared memory without gaps, its innermost dimension first, swizzled by the address. So it is what a
shared layout and a tensor walk through alike, from index 0 on: further boxes cover the rest of the layout. CUTLASS
include/cute/atom/copy_traits_sm90_tma.hpp; PTX ISA 5.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.layout import AnyLayout, ComposedLayout, Layout, Swizzle, right_inverse, size
from nvbackend.layout.algebra.inttuple import Dynamic
from nvbackend.layout.algebra.simplify import flat_modes
from nvbackend.layout.algebra.swizzle import BYTE_BITS, SmemPtr
from nvbackend.layout.descriptors.smem_layout import TMA_BOX_LIMIT
from nvbackend.tiled.copy_rules import BOX, MULTICAST

_UNIT_BYTES = 16
"""What the innermost dimension of a box is a multiple of."""
_SWIZZLES = {Swizzle(bits, 4, 3): _UNIT_BYTES << bits for bits in (1, 2, 3)}
_MOST_DIMENSIONS = 5


@user_facing
@dataclass(frozen=True, slots=True)
class TmaBox:
    """One copy: the box whose first element is at `coordinates` of the tile goes to element `offset` of its memory.

    Coordinates are in the order of the tile's modes, and CuTe's ArithTuple without what the tile begins at; with a
    builder's value as the CTA, both are values.
    """

    offset: Any
    coordinates: tuple[Any, ...]


@user_facing
@dataclass(frozen=True)
class TmaCopy:
    """How TMA fills a tile of `layout`. Made by `make_tma_copy`.

    `box` has the extents along the tile's modes; `order` names the modes, the innermost dimension of the tensor map
    first; `swizzle` is in bytes, 0 for none. `rests` are the steps from box to box, the first fastest: how many, by how
    many elements of shared memory, along which mode and by how many of its elements.
    """

    element: ElementType
    layout: AnyLayout
    box: tuple[int, ...]
    order: tuple[int, ...]
    swizzle: int
    rests: tuple[tuple[int, int, int, int], ...]

    @property
    def map_box(self) -> tuple[int, ...]:
        """The box as a `TensorMap` has it, outermost dimension first."""
        return tuple(self.box[mode] for mode in reversed(self.order))

    @property
    def bytes(self) -> int:
        """The bytes of the tile, which the mbarrier has to expect."""
        return self.element.bytes_for(math.prod(self.box)) * self.count

    @property
    def count(self) -> int:
        """How many boxes fill the tile."""
        return math.prod(count for count, *_ in self.rests)

    def at(self, number: Any) -> TmaBox:
        """Box number `number`, an integer or a builder's value."""
        offset: Any = 0
        coordinates: list[Any] = [0] * len(self.box)
        left = number
        for place, (count, step, mode, along) in enumerate(self.rests):
            last = place == len(self.rests) - 1
            index = left if last else left % count
            left = left if last else left // count
            offset = offset + index * step
            coordinates[mode] = coordinates[mode] + index * along
        return TmaBox(offset, tuple(coordinates))

    def boxes(self) -> Iterator[TmaBox]:
        """All boxes in the order of shared memory."""
        return map(self.at, range(self.count))

    def coordinates_of(self, box: TmaBox, tile_at: Sequence[Any]) -> tuple[Any, ...]:
        """The operands of the copy, innermost dimension first, where the tile begins at `tile_at` of the tensor."""
        return tuple(tile_at[mode] + box.coordinates[mode] for mode in self.order)


@user_facing
def make_tma_copy(element: ElementType, tensor: Layout, layout: AnyLayout, *, multicast: int = 1) -> TmaCopy:
    """The TMA copy that fills a shared layout (M, N, ...) with a tile of a tensor in global memory (M, N, ...).

    Of the tensor only the order of its strides counts: one of them is 1, and that mode is the map's innermost. The box
    is the largest that both walk through alike; with `multicast` at most so large that each of as many CTAs loads as
    many boxes. Raises copy.box, copy.multicast. CuTe's make_tma_copy.
    """
    plain = layout.layout_b if isinstance(layout, ComposedLayout) else layout
    order = _order(tensor, layout)
    swizzle = _swizzle_bytes(layout, element)
    limits = {order[0]: swizzle * BYTE_BITS // element.bits} if swizzle else {}
    box, rests = _grown(layout, plain, order, limits)
    copy = TmaCopy(element, layout, box, order, swizzle, rests)
    inner = box[order[0]]
    if inner * element.bits % (_UNIT_BYTES * BYTE_BITS):
        run = f"{element.bytes_for(inner)} bytes follow each other along the tensor's contiguous mode"
        _refuse(
            layout,
            f"{run}, {inner} of {element}",
            f"let runs of at least {_UNIT_BYTES} bytes along mode {order[0]} follow each other in shared memory",
        )
    return copy if multicast == 1 else _shared_out(copy, multicast)


@user_facing
def tma_partition(copy: TmaCopy, cta: Any = 0, count: int = 1) -> tuple[TmaBox, ...]:
    """The boxes that CTA `cta` of `count` issues of a tile that TMA multicasts to all of them; all boxes for one CTA.

    `cta` may be a builder's value. Raises copy.multicast where the boxes cannot be shared out. CuTe's tma_partition.
    """
    if copy.count % count or (isinstance(cta, int) and not 0 <= cta < count):
        outside = copy.count % count == 0
        MULTICAST.fail(
            cta=cta,
            count=count,
            boxes=copy.count,
            box=copy.box,
            problem="the cluster has no such CTA" if outside else f"{count} does not divide {copy.count}",
            instead=f"number them from 0 to {count - 1}" if outside else f"use make_tma_copy(..., multicast={count})",
        )
    each = copy.count // count
    first = 0 if isinstance(cta, int) and cta == 0 else cta * each
    return tuple(copy.at(first + number) for number in range(each))


def _refuse(layout: AnyLayout, problem: str, instead: str) -> NoReturn:
    BOX.fail(layout=layout, problem=problem, instead=instead)


def _order(tensor: Layout, layout: AnyLayout) -> tuple[int, ...]:
    """The modes of the tensor, the contiguous one first; strides known at run time only are larger than all others."""
    strides = []
    for mode in tensor.modes:
        steps = [stride for extent, stride in flat_modes(mode) if extent != 1]
        strides.append(steps[0] if steps else 0)
    known = [isinstance(stride, int) and not isinstance(stride, Dynamic) for stride in strides]
    contiguous = [place for place, stride in enumerate(strides) if known[place] and stride == 1]
    instead = "give the tensor's own shape and strides, one of which is 1"
    if len(contiguous) != 1:
        _refuse(layout, f"{len(contiguous)} modes of the tensor have a stride of 1", instead)
    if len(strides) != len(layout.layout_b.modes if isinstance(layout, ComposedLayout) else layout.modes):
        _refuse(layout, f"the tensor has {len(strides)} modes", "give the layout a mode for each of the tensor's")
    if len(strides) > _MOST_DIMENSIONS:
        _refuse(layout, f"the tensor has {len(strides)} modes, and a map {_MOST_DIMENSIONS}", "group modes")
    others = [place for place in range(len(strides)) if place not in contiguous]
    by_stride = sorted((place for place in others if known[place]), key=strides.__getitem__)
    return (*contiguous, *by_stride, *(place for place in others if not known[place]))


def _swizzle_bytes(layout: AnyLayout, element: ElementType) -> int:
    if not isinstance(layout, ComposedLayout) or not layout.swizzle.bits:
        return 0
    if isinstance(layout.offset, SmemPtr):
        in_bytes = layout.swizzle
    else:
        in_bytes = layout.swizzle.downcast(max(1, element.bits // BYTE_BITS))
        if layout.offset != 0:
            _refuse(layout, "it does not begin at 0", "give the layout of the whole tile")
    if in_bytes not in _SWIZZLES:
        instead = "swizzle with one of " + ", ".join(map(str, _SWIZZLES)) + " of bytes, or not at all"
        _refuse(layout, f"its swizzle is {in_bytes} of bytes", instead)
    return _SWIZZLES[in_bytes]


Rest = tuple[int, int, int, int]


def _grown(
    layout: AnyLayout, plain: Layout, order: tuple[int, ...], limits: dict[int, int]
) -> tuple[tuple[int, ...], tuple[Rest, ...]]:
    """The box, as far as shared memory follows the map's dimensions in order, and the steps that are left."""
    extents = tuple(map(size, plain.modes))
    box = [1] * len(extents)
    following = order
    rests: list[Rest] = []
    for count, step, mode, along in _walk(layout, plain, extents):
        taken = 1
        if mode in following and along == box[mode]:
            most = min(TMA_BOX_LIMIT, limits.get(mode, TMA_BOX_LIMIT)) // box[mode]
            taken = max(each for each in range(1, count + 1) if count % each == 0 and each <= most)
            box[mode] *= taken
            following = following[following.index(mode) :]
        if taken < count:
            following = ()
            rests.append((count // taken, step * taken, mode, along * taken))
    return tuple(box), tuple(rests)


def _walk(layout: AnyLayout, plain: Layout, extents: tuple[int, ...]) -> Iterator[Rest]:
    """The modes of shared memory by rising stride, each with the mode of the tile that it steps along, and how far."""
    inverse = right_inverse(plain)
    assert isinstance(inverse, Layout)
    if size(inverse) != math.prod(extents):
        _refuse(layout, "its elements do not follow each other without gaps", "give a compact layout")
    step = 1
    for count, stride in flat_modes(inverse):
        left, at = count, stride
        while left > 1:
            before, mode = 1, 0
            while at >= before * extents[mode]:
                before *= extents[mode]
                mode += 1
            inside = min(left, before * extents[mode] // at)
            yield inside, step, mode, at // before
            left, at, step = left // inside, at * inside, step * inside


def _shared_out(copy: TmaCopy, count: int) -> TmaCopy:
    """The same with smaller boxes, so that their number is a multiple of `count`, cut along the outermost dimension."""
    missing = count // math.gcd(copy.count, count)
    if missing == 1:
        return copy
    outer = next((mode for mode in reversed(copy.order) if copy.box[mode] > 1), copy.order[0])
    extent = copy.box[outer]
    if extent % missing or (outer == copy.order[0] and copy.element.bytes_for(extent // missing) % _UNIT_BYTES):
        problem = f"its outermost extent, {extent}, cannot be cut into {missing}"
        instead = "multicast to fewer CTAs, or take a larger tile"
        MULTICAST.fail(cta=0, count=count, boxes=copy.count, box=copy.box, problem=problem, instead=instead)
    box = tuple(each // missing if mode == outer else each for mode, each in enumerate(copy.box))
    first = (missing, math.prod(box), outer, box[outer])
    return TmaCopy(copy.element, copy.layout, box, copy.order, copy.swizzle, (first, *copy.rests))
