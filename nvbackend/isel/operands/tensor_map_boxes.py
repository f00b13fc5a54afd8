"""What the box of a tensor map must be, whatever the array.

Source of every limit: CUDA driver API, cuTensorMapEncodeTiled (interleave none, element strides 1).
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics.row.types import ElementType

MAX_RANK = 5
MAX_BOX = 256
MAX_PIXELS = 1024
"""Pixels in the box of a map that walks over pixels (im2col)."""
PIXELS_AND_CHANNELS = 2
"""The meaning of such a box."""
SWIZZLES = (0, 32, 64, 128)
ALIGNMENT = 16
REFERENCE = "CUDA driver API, cuTensorMapEncodeTiled"
SILENT = "The driver answers CUDA_ERROR_INVALID_VALUE and does not say which of its requirements was broken."

BOX_RANK = Rule(
    id="tensor-map.box-rank",
    message="tensor map {name}: box {box} has {given} dimension(s); it must have {wanted}",
    fix="{advice}",
    why=SILENT,
    reference=REFERENCE,
)
BOX = Rule(
    id="tensor-map.box",
    message="tensor map {name}: extent {extent} of dimension {dimension} of box {box} is not in 1 to {most}{unit}",
    fix="split the copy: a box has at most {most} elements in each dimension; a tile's layout knows its box, "
    "SmemLayout.tma_box",
    why=SILENT,
    reference=REFERENCE,
)
BOX_BYTES = Rule(
    id="tensor-map.box-bytes",
    message="tensor map {name}: a row of box {box} takes {given} bytes, which is not a multiple of {align}",
    fix="make the innermost box extent a multiple of {elements} elements of {element}",
    why=SILENT,
    reference=REFERENCE,
)
SWIZZLE = Rule(
    id="tensor-map.swizzle",
    message="tensor map {name}: swizzle={swizzle} with box rows of {given} bytes, for which it can be {allowed}",
    fix="make the innermost box extent at most {elements} elements, or take {others} and the layout that goes with it",
    why="A row must fit the swizzle's span: the driver refuses it, or the tile lands where no descriptor reads it.",
    reference=REFERENCE,
)


def stored_extents(element: ElementType, box: tuple[int, ...]) -> tuple[int, ...]:
    """The box in stored elements, which are bytes where several elements share one."""
    *outer, row = box
    return (*outer, element.bytes_for(row) if element.bits < 8 else row)


def box_faults(
    name: str, element: ElementType, box: tuple[int, ...], swizzle: int, *, of_pixels: bool = False
) -> Iterator[Diagnostic]:
    """What is wrong with a box and its swizzle; `of_pixels` where it has pixels and channels (im2col)."""
    if not (len(box) == PIXELS_AND_CHANNELS if of_pixels else 1 <= len(box) <= MAX_RANK):
        wanted = f"{PIXELS_AND_CHANNELS}, pixels and channels" if of_pixels else f"1 to {MAX_RANK}"
        advice = "give the box two extents" if of_pixels else "give an extent for each dimension of the array"
        yield BOX_RANK.diagnose(name=name, box=box, given=len(box), wanted=wanted, advice=advice)
        return
    for dimension, extent in enumerate(stored_extents(element, box)):
        most = MAX_PIXELS if of_pixels and dimension == 0 else MAX_BOX
        if not 1 <= extent <= most:
            unit = " bytes" if element.bits < 8 and dimension == len(box) - 1 else ""
            yield BOX.diagnose(name=name, extent=extent, dimension=dimension, box=box, most=most, unit=unit)
    row_bits = box[-1] * element.bits
    if row_bits % (8 * ALIGNMENT):
        yield BOX_BYTES.diagnose(
            name=name,
            box=box,
            given=f"{row_bits / 8:g}",
            align=ALIGNMENT,
            elements=8 * ALIGNMENT // element.bits,
            element=element,
        )
    row_bytes = element.bytes_for(box[-1])
    if 0 < swizzle < row_bytes:
        allowed = [span for span in SWIZZLES if not span or span >= row_bytes]
        yield SWIZZLE.diagnose(
            name=name,
            swizzle=swizzle,
            given=row_bytes,
            allowed=", ".join(map(str, allowed)),
            others="a wider swizzle" if any(allowed) else "no swizzle",
            elements=8 * swizzle // element.bits,
        )
