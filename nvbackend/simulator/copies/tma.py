"""TMA: the pieces that a copy between a tensor and a box in shared memory moves, in every mode. PTX ISA 5.5.3-5.5.5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.copies.moves import Addresses, Moves, every, outer
from nvbackend.simulator.copies.rules import COPY_PLACE, NOT_MODELLED
from nvbackend.simulator.copies.swizzle import swizzled
from nvbackend.simulator.copies.tensor_map import TensorMap
from nvbackend.simulator.formats import FORMATS

ALIGNMENT: Final = 16
"""Bytes to which the innermost start of a box is aligned, and the widest piece."""
SHARED_ALIGNMENT: Final = 128
ROWS: Final = 4
"""The rows that tile::gather4 and tile::scatter4 name."""
MODE_OF_MAP: Final = {
    "tile": "tile",
    "tile::gather4": "tile",
    "tile::scatter4": "tile",
    "im2col": "im2col",
    "im2col_no_offs": "im2col",
    "im2col::w": "im2col::w",
    "im2col_no_offs::w": "im2col::w",
    "im2col::w::128": "im2col::w::128",
    "im2col_no_offs::w::128": "im2col::w::128",
}
"""The mode that a map must be encoded for, by the mode of the instruction."""


def moves(
    what: str,
    tensor_map: TensorMap,
    mode: str,
    coordinates: Sequence[int],
    shared: int,
    offsets: Sequence[int] = (),
    *,
    load: bool = True,
) -> Moves:
    """The pieces of one copy; `what` names the instruction in messages, `shared` is the box's address.

    `coordinates` have the innermost dimension first; of tile::gather4 and scatter4 the column and four rows. `offsets`
    are those of im2col, or (halo, offset) of im2col::w. Raises simulator.tma-place, simulator.not-modelled.
    """
    _check(what, tensor_map, mode, coordinates, shared, load)
    if mode in ("tile::gather4", "tile::scatter4"):
        return _rows(tensor_map, coordinates, shared)
    if MODE_OF_MAP[mode] == "tile":
        return _tile(tensor_map, coordinates, shared)
    return _pixels(what, tensor_map, mode, coordinates, shared, offsets)


def _check(what: str, tensor_map: TensorMap, mode: str, coordinates: Sequence[int], shared: int, load: bool) -> None:
    kind = tensor_map.kind
    if MODE_OF_MAP[mode] != tensor_map.mode:
        COPY_PLACE.fail(
            what=what, problem=f"its mode is {mode}, the map's {tensor_map.mode}", fix="use a map of the same mode"
        )
    gathers = mode in ("tile::gather4", "tile::scatter4")
    rank = 2 if gathers else len(coordinates)
    if rank != tensor_map.rank or (gathers and tensor_map.box[1] != 1):
        COPY_PLACE.fail(
            what=what,
            problem=f"it takes a map of {rank} dimensions{' and one row' if gathers else ''}; this map has "
            f"{tensor_map.rank} and a box of {tensor_map.box}",
            fix="use the instruction of the map's rank, or another map",
        )
    if shared % SHARED_ALIGNMENT:
        COPY_PLACE.fail(
            what=what,
            problem=f"the box is at shared address {shared:#x}, not a multiple of {SHARED_ALIGNMENT}",
            fix=f"align the buffer to {SHARED_ALIGNMENT} bytes",
        )
    if tensor_map.interleave:
        NOT_MODELLED.fail(what=what, problem="the map is interleaved", fix="use a map without interleave")
    if not load and kind.shared_pitch != kind.global_bytes:
        NOT_MODELLED.fail(
            what=what, problem=f"it stores packed values of {kind.name}", fix="store them by a map of bytes"
        )
    if coordinates[0] * kind.bits % (8 * ALIGNMENT):
        COPY_PLACE.fail(
            what=what,
            problem=f"it starts at element {coordinates[0]} of the innermost dimension, which is not at a multiple of "
            f"{ALIGNMENT} bytes",
            fix=f"start at a multiple of {8 * ALIGNMENT // kind.bits} elements of {kind.name}",
        )
    if not load and any(coordinate < 0 for coordinate in coordinates):
        COPY_PLACE.fail(
            what=what,
            problem=f"it stores to {tuple(coordinates)}, which is before the start of the tensor",
            fix="store from coordinate 0 on; what is past the end is cut off",
        )


def _unit(tensor_map: TensorMap, column: int) -> tuple[int, int, int]:
    """Elements, bytes and pitch in shared memory of one piece: 16 bytes where no piece lies half inside."""
    kind = tensor_map.kind
    if kind.count > 1:
        return kind.count, kind.global_bytes, kind.shared_pitch
    wide = ALIGNMENT // kind.global_bytes
    if wide > 1 and tensor_map.extents[0] % wide == 0 and column % wide == 0 and tensor_map.box[0] % wide == 0:
        return wide, ALIGNMENT, ALIGNMENT
    return 1, kind.global_bytes, kind.global_bytes


def _columns(tensor_map: TensorMap, column: int) -> tuple[Addresses, NDArray[np.bool_], int, int]:
    """Of one row: the pieces' bytes from the tensor's start, which are inside, their size, and their pitch."""
    elements, size, pitch = _unit(tensor_map, column)
    first = column + elements * np.arange(-(-tensor_map.box[0] // elements), dtype=np.int64)
    inside = (first >= 0) & (first + elements <= tensor_map.extents[0])
    return first // elements * size, inside, size, pitch


def _placed(tensor_map: TensorMap, shared: int, pieces: int, pitch: int) -> Addresses:
    plain = shared + pitch * np.arange(pieces, dtype=np.int64)
    return swizzled(plain, tensor_map.swizzle, tensor_map.atomicity)


def _tile(tensor_map: TensorMap, coordinates: Sequence[int], shared: int) -> Moves:
    offsets, inside, size, pitch = _columns(tensor_map, coordinates[0])
    terms, masks = [offsets], [inside]
    for dimension in range(1, tensor_map.rank):
        step = tensor_map.steps[dimension]
        count = -(-tensor_map.box[dimension] // step)
        places = coordinates[dimension] + step * np.arange(count, dtype=np.int64)
        terms.insert(0, places * tensor_map.strides[dimension - 1])
        masks.insert(0, (places >= 0) & (places < tensor_map.extents[dimension]))
    tensor = tensor_map.address + outer(*terms)
    return Moves(tensor, _placed(tensor_map, shared, tensor.size, pitch), every(*masks), size, pitch)


def _rows(tensor_map: TensorMap, coordinates: Sequence[int], shared: int) -> Moves:
    offsets, inside, size, pitch = _columns(tensor_map, coordinates[0])
    rows = np.array(coordinates[1 : 1 + ROWS], np.int64)
    tensor = tensor_map.address + outer(rows * tensor_map.strides[0], offsets)
    mask = every((rows >= 0) & (rows < tensor_map.extents[1]), inside)
    return Moves(tensor, _placed(tensor_map, shared, tensor.size, pitch), mask, size, pitch)


def _pixels(
    what: str, tensor_map: TensorMap, mode: str, coordinates: Sequence[int], shared: int, offsets: Sequence[int]
) -> Moves:
    wide = MODE_OF_MAP[mode] != "im2col"
    if wide and offsets and offsets[0]:
        NOT_MODELLED.fail(
            what=what, problem=f"it loads a halo of {offsets[0]} pixels", fix="load the halo by a copy of its own"
        )
    along = 1 if wide else tensor_map.rank - 2
    adds = [0] * along if not offsets else [offsets[1]] if wide else list(offsets)
    places, inside = _walk(what, tensor_map, coordinates, adds, along)
    starts = (places * np.array(tensor_map.strides, np.int64)).sum(axis=1)
    columns, inner, size, pitch = _columns(tensor_map, coordinates[0])
    tensor = tensor_map.address + outer(starts, columns)
    return Moves(tensor, _placed(tensor_map, shared, tensor.size, pitch), every(inside, inner), size, pitch)


def _walk(
    what: str, tensor_map: TensorMap, coordinates: Sequence[int], adds: Sequence[int], along: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The places (pixels, dimensions less the innermost) from the start on, W first, each moved by the offsets.

    A place goes from a dimension's lower corner to its extent plus its upper corner, by its traversal stride; then the
    next of the `along` dimensions walked moves on, and after the last of them the image.
    """
    spans = list(zip(tensor_map.lower, tensor_map.extents[1:], tensor_map.upper, strict=False))[:along]
    ends = [extent + upper for _, extent, upper in spans]
    for dimension, ((lower, _, _), end) in enumerate(zip(spans, ends, strict=True)):
        start = coordinates[1 + dimension]
        if not (lower <= start < end or (dimension == 0 and along == 1 and start < end)):
            COPY_PLACE.fail(
                what=what,
                problem=f"it starts at {start} along dimension {1 + dimension}, outside of the corners {lower} to "
                f"{end} (exclusive)",
                fix="start within the bounding box",
            )
        if (start - lower) % tensor_map.steps[1 + dimension]:
            step = tensor_map.steps[1 + dimension]
            problem = f"it starts at {start} along dimension {1 + dimension}, and the walk from {lower} goes by {step}"
            NOT_MODELLED.fail(what=what, problem=problem, fix="start at the lower corner plus a multiple of the stride")
    steps = tensor_map.steps[1:]
    place = list(coordinates[1:])
    image = tensor_map.rank - 2
    found = []
    for _ in range(tensor_map.pixels):
        found.append([*(one + add for one, add in zip(place, adds, strict=False)), *place[along:]])
        for dimension in range(along):
            place[dimension] += steps[dimension]
            if place[dimension] < ends[dimension]:
                break
            place[dimension] = spans[dimension][0]
        else:
            place[image] += 1
    places = np.array(found, np.int64)
    inside = (places >= 0) & (places < np.array(tensor_map.extents[1:], np.int64))
    return places, np.logical_and.reduce(inside, axis=1)


def rounded(name: str, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The bytes of a load's pieces as they come to shared memory: f32 rounded to the nearest of a format, ties to even.

    So does an H200 with maps of tf32. One of tf32.ftz flushes no subnormal number there, and a store rounds nothing.
    """
    values = np.ascontiguousarray(data).view("<f4").astype(np.float64)
    return FORMATS[name].encode(values).astype("<u4").view(np.uint8)


def fill(tensor_map: TensorMap, size: int) -> NDArray[np.uint8]:
    """The bytes of a piece that lies outside of the tensor."""
    pattern = tensor_map.kind.oob_nan
    if tensor_map.fill == "zero" or pattern is None:
        return np.zeros(size, np.uint8)
    one = np.frombuffer(pattern.to_bytes(tensor_map.kind.global_bytes, "little"), np.uint8)
    return np.tile(one, size // one.size)
