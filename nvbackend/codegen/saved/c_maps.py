"""Tensor maps in the header of C: a struct for the array, and a function that has the driver encode its map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nvbackend.intrinsics.copy.map_elements import DRIVER_TYPES, ELEMENT_TYPE_OF
from nvbackend.isel.operands.tensor_map_boxes import stored_extents
from nvbackend.signature import Im2col, TensorMap

_WIDE_PROMOTION = 256


def struct(name: str, parameter: str, map_: TensorMap) -> Iterator[str]:
    """The array that a map is of."""
    yield f"/* The array of parameter {parameter}: elements of {map_.element}; the map's box is {_shown(map_.box)}. */"
    yield "typedef struct {"
    yield "    CUdeviceptr address;"
    yield f"    uint64_t shape[{map_.rank}];"
    if map_.rank > 1:
        yield f"    uint64_t strides[{map_.rank - 1}];"
    yield from (f"}} {name};", "")


def encoder(name: str, map_: TensorMap) -> Iterator[str]:
    """The function `NAME_encode`, whose map is at an address that is a multiple of 64 bytes."""
    rank, bytes_ = map_.rank, max(map_.element.bits // 8, 1)
    kind = DRIVER_TYPES[ELEMENT_TYPE_OF[map_.element.name]]
    swizzle = f"CU_TENSOR_MAP_SWIZZLE_{map_.swizzle}B" if map_.swizzle else "CU_TENSOR_MAP_SWIZZLE_NONE"
    yield f"static inline CUresult {name}_encode(CUtensorMap *map, const {name} *array) {{"
    extents = ", ".join(f"array->shape[{at}]" for at in reversed(range(rank)))
    yield f"    const uint64_t extents[{rank}] = {{{extents}}};"
    yield f"    const uint32_t steps[{rank}] = {_list([1] * rank)};"
    yield f"    uint64_t strides[{max(rank - 1, 1)}] = {{0}};"
    for at in range(rank - 1):
        stride, dense = f"array->strides[{rank - 2 - at}]", f"strides[{at - 1}]" if at else str(bytes_)
        yield f"    strides[{at}] = {stride} ? {stride} : extents[{at}] * {dense};"
    box = stored_extents(map_.element, map_.box)
    yield from _areas(map_.im2col, box)
    encode = "Tiled" if map_.im2col is None else "Im2col" if map_.im2col.wide is None else "Im2colWide"
    yield f"    return cuTensorMapEncode{encode}("
    yield f"        map, CU_TENSOR_MAP_DATA_TYPE_{kind}, {rank}, (void *)(uintptr_t)array->address, extents, strides,"
    yield f"        {_walk(map_.im2col, box)}steps, CU_TENSOR_MAP_INTERLEAVE_NONE,{_mode(map_.im2col)} {swizzle},"
    wide = f"extents[0] * {bytes_} >= {_WIDE_PROMOTION}"
    yield f"        {wide} ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B,"
    yield from ("        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);", "}", "")


def _areas(walk: Im2col | None, box: Sequence[int]) -> Iterator[str]:
    """The variables of the box, or of the corners; innermost first."""
    if walk is None:
        yield f"    const uint32_t box[{len(box)}] = {_list(box[::-1])};"
    elif walk.wide is None:
        yield f"    const int lower[{len(walk.lower)}] = {_list(walk.lower[::-1])};"
        yield f"    const int upper[{len(walk.upper)}] = {_list(walk.upper[::-1])};"


def _walk(walk: Im2col | None, box: Sequence[int]) -> str:
    if walk is None:
        return "box, "
    pixels, channels = box
    corners = "lower, upper" if walk.wide is None else f"{walk.lower[0]}, {walk.upper[0]}"
    return f"{corners}, {channels}, {pixels}, "


def _mode(walk: Im2col | None) -> str:
    if walk is None or walk.wide is None:
        return ""
    return f" CU_TENSOR_MAP_IM2COL_WIDE_MODE_{walk.wide.upper()},"


def _list(numbers: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, numbers)) + "}"


def _shown(box: Sequence[int]) -> str:
    return " x ".join(map(str, box))
