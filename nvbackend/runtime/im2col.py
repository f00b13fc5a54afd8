"""Tensor maps that walk over pixels for convolutions: their limits, and how they are encoded.

Source of every limit: CUDA driver API, cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide (interleave none).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.isel.operands.tensor_map_boxes import PIXELS_AND_CHANNELS, SILENT
from nvbackend.signature import Im2col, TensorMap

CORNERS: dict[int, range] = {3: range(-32768, 32768), 4: range(-128, 128), 5: range(-16, 16)}
"""The rank of the array, and the range of corners that its map can hold."""
WIDE_CORNERS = CORNERS[3]
MAX_STRIDE = 8
WIDE_MODES = {"w": "W", "w128": "W128"}
"""Modes along W alone, and the driver's names for them."""
WIDE_SWIZZLES = (64, 128)
W128_PIXELS = 128
"""Pixels that a copy in mode w128 always moves."""

_REFERENCE = "CUDA driver API, cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2colWide"

RANK = Rule(
    id="tensor-map.im2col-rank",
    message="tensor map {name}: im2col is of arrays of {lowest} to {highest} dimensions, not {rank}; its box is "
    "(pixels, channels), not {box}",
    fix="use batch, one to three dimensions of space, and channels innermost, and a box of two extents",
    why=SILENT,
    reference=_REFERENCE,
)
CORNER = Rule(
    id="tensor-map.im2col-corners",
    message="tensor map {name}: corners {lower} and {upper} of rank {rank}; there are {count} of each, {lowest} to "
    "{highest}",
    fix="give a corner for each dimension of space, outermost first (one where only W is walked), in that range",
    why=SILENT,
    reference=_REFERENCE,
)
STEP = Rule(
    id="tensor-map.im2col-stride",
    message="tensor map {name}: strides {stride} of rank {rank}; there are {count}, 1 to {most}",
    fix="give a stride for each dimension that has corners, outermost first, in that range",
    why=SILENT,
    reference=_REFERENCE,
)
WIDE = Rule(
    id="tensor-map.im2col-wide",
    message="tensor map {name}: im2col along W by {wide!r} with a swizzle of {swizzle} and {pixels} pixels; {needs}",
    fix="use wide='w' or 'w128', a swizzle of {swizzles} bytes, and {fixed} pixels with w128",
    why=SILENT,
    reference=_REFERENCE,
)
AREA = Rule(
    id="tensor-map.im2col-area",
    message="tensor map {name}: dimension {dimension} of space, of extent {extent}, has no pixel from "
    "{lower} to {end} (upper corner {upper})",
    fix="give the padding as corners: lower is -padding, upper is padding - (extent of the filter - 1) * dilation",
    why=SILENT,
    reference=_REFERENCE,
)


def check_im2col(name: str, walk: Im2col, parameter: TensorMap) -> Iterator[Diagnostic]:
    """What is wrong with an im2col map itself, apart from its element, swizzle and box extents."""
    if walk.rank not in CORNERS or len(parameter.box) != PIXELS_AND_CHANNELS:
        ranks = sorted(CORNERS)
        yield RANK.diagnose(name=name, lowest=ranks[0], highest=ranks[-1], rank=walk.rank, box=parameter.box)
        return
    legal = CORNERS[walk.rank] if walk.wide is None else WIDE_CORNERS
    count = walk.rank - 2 if walk.wide is None else 1
    corners = (*walk.lower, *walk.upper)
    if len(walk.lower) != count or len(walk.upper) != count or any(corner not in legal for corner in corners):
        yield CORNER.diagnose(
            name=name,
            lower=walk.lower,
            upper=walk.upper,
            rank=walk.rank,
            count=count,
            lowest=legal[0],
            highest=legal[-1],
        )
    if walk.stride is not None and (
        len(walk.stride) != count or any(not 1 <= step <= MAX_STRIDE for step in walk.stride)
    ):
        yield STEP.diagnose(name=name, stride=walk.stride, rank=walk.rank, count=count, most=MAX_STRIDE)
    if walk.wide is not None:
        yield from _check_wide(name, walk.wide, parameter)


def _check_wide(name: str, wide: str, parameter: TensorMap) -> Iterator[Diagnostic]:
    pixels = parameter.box[0]
    needs = [
        f"the modes are {' and '.join(WIDE_MODES)}" if wide not in WIDE_MODES else "",
        "another swizzle does not go with it" if parameter.swizzle not in WIDE_SWIZZLES else "",
        f"w128 moves {W128_PIXELS}" if wide == "w128" and pixels != W128_PIXELS else "",
    ]
    if any(needs):
        yield WIDE.diagnose(
            name=name,
            wide=wide,
            swizzle=parameter.swizzle,
            pixels=pixels,
            needs="; ".join(filter(None, needs)),
            swizzles=" or ".join(map(str, WIDE_SWIZZLES)),
            fixed=W128_PIXELS,
        )


def check_area(name: str, walk: Im2col, shape: tuple[int, ...]) -> Iterator[Diagnostic]:
    """Whether any pixel lies between the corners in an array of `shape`."""
    space = shape[1:-1] if walk.wide is None else shape[-2:-1]
    for dimension, (extent, lower, upper) in enumerate(zip(space, walk.lower, walk.upper, strict=True)):
        if extent + upper - lower <= 0:
            yield AREA.diagnose(
                name=name, dimension=dimension, extent=extent, lower=lower, upper=upper, end=extent + upper
            )


def element_strides(walk: Im2col) -> tuple[int, ...]:
    """The steps along all dimensions of the array, outermost first."""
    steps = (*(walk.stride or ()), 1)
    return (1,) * (walk.rank - len(steps)) + steps


def encode_im2col(enums: Any, view: Any, walk: Im2col, box: tuple[int, ...], options: dict[str, Any]) -> Any:
    """The cuda.core TensorMapDescriptor of `view`; `enums` is the module of cuda.core that has them.

    cuda.core has these two as helpers that it does not document yet. What it refuses it raises as ValueError.
    """
    pixels, channels = box
    descriptor = enums.TensorMapDescriptor
    if walk.stride is not None:
        options = {**options, "element_strides": element_strides(walk)}
    if walk.wide is None:
        return descriptor._from_im2col(view, walk.lower, walk.upper, channels, pixels, **options)
    mode = enums.TensorMapIm2ColWideMode[WIDE_MODES[walk.wide]]
    return descriptor._from_im2col_wide(view, walk.lower[0], walk.upper[0], channels, pixels, mode=mode, **options)
