"""Tiles that TMA moves box by box, between a tensor map's array and a tensor in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.parameters import TensorMapParameter
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.tensor import Tensor
from nvbackend.builder.values.values import SHARED_SPACE, Operand
from nvbackend.diagnostics import Rule
from nvbackend.layout import AnyLayout, ComposedLayout, Layout, Swizzle, coalesce
from nvbackend.signature import TensorMap
from nvbackend.tiled import TmaCopy, tma_partition

BOXES = Rule(
    id="copy.boxes",
    message="boxes of {box}, swizzled by {swizzle} bytes, between {source} and {destination}: {problem}",
    fix="{instead}",
    why="TMA would copy other elements, or put them where the tensor does not have them.",
    reference="CUTLASS include/cute/atom/copy_traits_sm90_tma.hpp",
)


def copy_boxes(
    k: FunctionBuilder,
    copy: TmaCopy,
    source: object,
    destination: object,
    at: Sequence[Operand] | None,
    barrier: Address | None,
    *,
    multicast: bool,
    where: object,
) -> None:
    """Copy box by box, one instruction each; of a multicast tile, this CTA's share. Raises copy.boxes."""
    tensor_map, tensor, loads = _sides(copy, source, destination)

    def fail(problem: str, instead: str) -> NoReturn:
        _fail(copy, source, destination, problem, instead)

    _check_map(copy, tensor_map.type, fail)
    if tensor._memory.space != SHARED_SPACE or not _same(tensor, copy.layout):
        fail("the tensor is another than it was made for", f"give a tensor in shared memory with {copy.layout}")
    if at is None or len(at) != len(copy.box):
        fail("`at` does not say where the tile begins", f"give an index for each of the {len(copy.box)} modes")
    if loads is not (barrier is not None):
        instead = "give `barrier`, on which its bytes complete" if loads else "leave `barrier` out; commit and wait"
        fail("what is loaded completes on an mbarrier, what is stored in a bulk group", instead)
    if where is not None:
        fail("a box has no `where`", "leave it out: TMA fills what is outside the array, and writes none of it")
    if multicast and not loads:
        fail("what is stored has one place", "leave `multicast` out")
    shared = multicast and k.cluster_size > 1
    boxes = tma_partition(copy, k.cluster.rank(), k.cluster_size) if shared else tma_partition(copy)
    mask = (1 << k.cluster_size) - 1 if shared else None
    begin = tensor.address
    for box in boxes:
        place, coordinates = begin + box.offset, copy.coordinates_of(box, at)
        if barrier is None:
            k.tma.store_box(tensor_map, coordinates, place)
        else:
            k.tma.load_box(place, tensor_map, coordinates, barrier, multicast_mask=mask)


def _fail(copy: TmaCopy, source: object, destination: object, problem: str, instead: str) -> NoReturn:
    named = [side.name if isinstance(side, TensorMapParameter) else side for side in (source, destination)]
    BOXES.fail(
        box=copy.box,
        swizzle=copy.swizzle,
        source=named[0],
        destination=named[1],
        problem=problem,
        instead=instead,
    )


def _sides(copy: TmaCopy, source: object, destination: object) -> tuple[TensorMapParameter, Tensor, bool]:
    """The map, the tensor, and whether it is a load."""
    if isinstance(source, TensorMapParameter) and isinstance(destination, Tensor):
        return source, destination, True
    if isinstance(source, Tensor) and isinstance(destination, TensorMapParameter):
        return destination, source, False
    _fail(copy, source, destination, "one of them is a map and the other a tensor", "give a TensorMap and a tensor")


def _check_map(copy: TmaCopy, tensor_map: TensorMap, fail: Callable[[str, str], NoReturn]) -> None:
    wanted = f"declare the map as TensorMap({copy.element}, {copy.map_box}, {copy.swizzle})"
    if tensor_map.im2col is not None or (tensor_map.element, tensor_map.box) != (copy.element, copy.map_box):
        fail(f"the map has boxes of {tensor_map.box} of {tensor_map.element}", wanted)
    if tensor_map.swizzle != copy.swizzle:
        fail(f"the map swizzles by {tensor_map.swizzle} bytes", wanted)


def _same(tensor: Tensor, layout: AnyLayout) -> bool:
    """Whether each element of the tensor is where `layout` puts it."""
    if len(tensor._terms) > 1:
        return False
    return _parts(tensor.layout) == _parts(layout)


def _parts(layout: AnyLayout) -> tuple[Swizzle | None, Layout]:
    """The swizzle of a layout, None where it has none, and what is swizzled."""
    composed = layout.in_elements() if isinstance(layout, ComposedLayout) else None
    plain = layout.layout_b if isinstance(layout, ComposedLayout) else layout
    swizzle = composed.swizzle if composed is not None and composed.swizzle.bits else None
    return swizzle, coalesce(plain, (1,) * len(plain.modes))
