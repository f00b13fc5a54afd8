"""Tensor maps (CUtensorMap) made from device arrays: their limits, checked before the driver sees them.

Source of every limit: CUDA driver API, cuTensorMapEncodeTiled (interleave none, element strides 1).
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy.map_elements import DRIVER_TYPES, ELEMENT_TYPE_OF
from nvbackend.intrinsics.copy.tensor_map_word import TensorMapWord
from nvbackend.intrinsics.row.types import BY_NAME
from nvbackend.isel.operands.tensor_map_boxes import (
    ALIGNMENT,
    MAX_RANK,
    REFERENCE,
    SILENT,
    SWIZZLES,
    box_faults,
    stored_extents,
)
from nvbackend.runtime.arguments.arrays import DeviceArray
from nvbackend.runtime.driver import driver_errors
from nvbackend.runtime.im2col import check_area, check_im2col, encode_im2col
from nvbackend.signature import Im2col, TensorMap

MAX_EXTENT = 1 << 32
STRIDE_LIMIT = 1 << 40
_COPIED = "pass a copy: rows that are reversed, or all the same row, are not what a tensor map can walk over"
CACHED_MAPS = 1024
"""Encoded maps kept per loaded kernel: a recurring pointer (a pool's buffer) needs no second encoding."""

RANK = Rule(
    id="tensor-map.rank",
    message="tensor map {name} has a box of rank {expected} ({box}); the array has rank {given} (shape {shape})",
    fix="pass an array of rank {expected}, or declare a box of as many dimensions as the array has, 1 to {most}",
    why=SILENT,
    reference=REFERENCE,
)
EXTENT = Rule(
    id="tensor-map.extent",
    message="tensor map {name}: extent {extent} of dimension {dimension} is not in 1 to {most}",
    fix="pass an array whose every extent is in 1 to {most}; where there is nothing to load, any array will do",
    why=SILENT,
    reference=REFERENCE,
)
ADDRESS = Rule(
    id="tensor-map.address",
    message="tensor map {name}: the array starts at {address:#x}, which is not a multiple of {align} bytes",
    fix="pass an array that starts at a multiple of {align} bytes, not a slice that begins in between",
    why=SILENT,
    reference=REFERENCE,
)
INNER_STRIDE = Rule(
    id="tensor-map.inner-stride",
    message="tensor map {name}: innermost elements are {stride} bytes apart, an element has {expected}",
    fix="pass an array whose innermost dimension is contiguous: a copy; or the array as it lies in memory, such as "
    "array.T, with the axes of the box exchanged",
    why="A tensor map has no stride for its innermost dimension: TMA would copy other elements.",
    reference=REFERENCE,
)
STRIDE = Rule(
    id="tensor-map.stride",
    message="tensor map {name}: stride of {stride} bytes in dimension {dimension} (shape {shape}) is not a multiple of "
    "{align} in {align} to 2^40 - {align}",
    fix="{fix}",
    why=SILENT,
    reference=REFERENCE,
)
UNAVAILABLE = Rule(
    id="tensor-map.unavailable",
    message="cuda.core {version} cannot make tensor maps",
    fix="install cuda-core 1.0 or newer",
    why="TensorMapDescriptor came with cuda.core 1.0.",
    reference="cuda.core, TensorMapDescriptor",
)
ENCODING_FAILED = Rule(
    id="tensor-map.encoding-failed",
    message="cuda.core does not encode tensor map {name} ({plan}): {error}",
    fix="report it: every documented requirement was checked before",
    why="This driver requires something that its documentation does not state.",
    reference=REFERENCE,
)


@dataclass(frozen=True, slots=True)
class TensorMapPlan:
    """The content of a tensor map, outermost dimension first, in the units the driver takes.

    `shape` and `box` count stored elements (bytes, where several elements share one), `strides` bytes; the innermost
    stride is the element size. `l2_promotion` is the bytes that one miss fetches into L2. Exposes itself as a
    `__cuda_array_interface__` so that cuda.core can encode it.
    """

    pointer: int
    data_type: str
    item_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    l2_promotion: int
    im2col: Im2col | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": f"<u{self.item_bytes}" if self.item_bytes > 1 else "|u1",
            "data": (self.pointer, False),
            "version": 3,
        }


def check_tensor_map(name: str, parameter: TensorMap) -> Iterator[Diagnostic]:
    """What is wrong with a parameter's walk over pixels, whatever the array; its box is checked where it is made."""
    if parameter.im2col is not None:
        yield from check_im2col(name, parameter.im2col, parameter)


def check_array(name: str, parameter: TensorMap, array: DeviceArray) -> Iterator[Diagnostic]:
    """Why `array` cannot be described by a tensor map of `parameter`; its element type is checked elsewhere."""
    yield from _array_faults(name, parameter.rank, parameter.box, parameter.im2col, array)


def _array_faults(
    name: str, rank: int, box: tuple[int, ...], walk: Im2col | None, array: DeviceArray
) -> Iterator[Diagnostic]:
    if len(array.shape) != rank:
        yield RANK.diagnose(
            name=name,
            expected=rank,
            box=box,
            given=len(array.shape),
            shape=array.shape,
            most=MAX_RANK,
        )
        return
    for dimension, extent in enumerate(array.shape):
        if not 1 <= extent <= MAX_EXTENT:
            yield EXTENT.diagnose(name=name, extent=extent, dimension=dimension, most=MAX_EXTENT)
    if 0 in array.shape:
        return  # its strides mean nothing
    if walk is not None:
        yield from check_area(name, walk, array.shape)
    if array.pointer % ALIGNMENT:
        yield ADDRESS.diagnose(name=name, address=array.pointer, align=ALIGNMENT)
    strides = _plain_strides(array)
    if strides and strides[-1] != array.item_bytes:
        yield INNER_STRIDE.diagnose(name=name, stride=strides[-1], expected=array.item_bytes)
        return  # in an array without this mistake the other strides are others
    for dimension, stride in enumerate(strides[:-1]):
        if stride % ALIGNMENT or not 0 < stride < STRIDE_LIMIT:
            yield STRIDE.diagnose(
                name=name,
                stride=stride,
                dimension=dimension,
                shape=array.shape,
                align=ALIGNMENT,
                fix=_padded(array.item_bytes) if stride > 0 else _COPIED,
            )


def _padded(item_bytes: int) -> str:
    """What to do about rows that begin in between."""
    count = ALIGNMENT // item_bytes
    return f"pad the rows: allocate an innermost extent that is a multiple of {count} elements and slice it"


def check_word(name: str, word: TensorMapWord) -> Iterator[Diagnostic]:
    """Why no copy can use the map that `word` holds; nothing where arrays' maps have no such type or swizzle."""
    element = BY_NAME.get(word.element.removesuffix(".ftz"))
    if element is None or word.interleave or word.swizzle not in SWIZZLES:
        return
    item_bytes = element.bits // 8
    strides = (*reversed(word.global_stride), item_bytes)
    box, shape = word.box_dim[::-1], word.global_dim[::-1]
    yield from box_faults(name, element, box, word.swizzle)
    array = DeviceArray(word.global_address, shape, strides, "", item_bytes)
    yield from _array_faults(name, len(box), box, None, array)


def plan(parameter: TensorMap, array: DeviceArray) -> TensorMapPlan:
    """The tensor map of an `array` that passed `check_tensor_map` and `check_array`."""
    box = stored_extents(parameter.element, parameter.box)
    row_bytes = min(box[-1], array.shape[-1]) * array.item_bytes
    return TensorMapPlan(
        pointer=array.pointer,
        data_type=DRIVER_TYPES[ELEMENT_TYPE_OF[parameter.element.name]],
        item_bytes=array.item_bytes,
        shape=array.shape,
        strides=_plain_strides(array),
        box=box,
        swizzle=parameter.swizzle,
        # A wider fetch than a row of the box brings in bytes before they are asked for: short kernels take 1 to 3 %
        # longer with it, long ones the same time (H200).
        l2_promotion=256 if row_bytes >= 256 else 128,
        im2col=parameter.im2col,
    )


class TensorMapCache:
    """Encoded tensor maps by their content, the most recently used `CACHED_MAPS` of them."""

    def __init__(self) -> None:
        self._maps: OrderedDict[TensorMapPlan, Any] = OrderedDict()

    def get(self, name: str, planned: TensorMapPlan) -> Any:
        """The cuda.core TensorMapDescriptor of `planned`. Raises tensor-map.unavailable, tensor-map.encoding-failed."""
        encoded = self._maps.get(planned)
        if encoded is None:
            encoded = self._maps[planned] = encode(name, planned)
            if len(self._maps) > CACHED_MAPS:
                self._maps.popitem(last=False)
        else:
            self._maps.move_to_end(planned)
        return encoded


def encode(name: str, planned: TensorMapPlan) -> Any:
    """`planned` as a cuda.core TensorMapDescriptor, in the current context; what lies outside the array reads as 0.

    Raises tensor-map.unavailable where cuda.core is too old, tensor-map.encoding-failed with the driver's answer.
    """
    view_class = importlib.import_module("cuda.core.utils").StridedMemoryView
    if not hasattr(view_class, "as_tensor_map"):
        UNAVAILABLE.fail(version=importlib.import_module("cuda.core").__version__)
    enums = importlib.import_module("cuda.core._tensor_map")
    swizzle = f"SWIZZLE_{planned.swizzle}B" if planned.swizzle else "NONE"
    try:
        # -1: only the description is read, so no stream has to wait for the array's content.
        view = view_class.from_cuda_array_interface(planned, stream_ptr=-1)
        options = {
            "data_type": enums.TensorMapDataType[planned.data_type],
            "swizzle": enums.TensorMapSwizzle[swizzle],
            "l2_promotion": enums.TensorMapL2Promotion[f"L2_{planned.l2_promotion}B"],
            "oob_fill": enums.TensorMapOOBFill.NONE,
        }
        if planned.im2col is not None:
            return encode_im2col(enums, view, planned.im2col, planned.box, options)
        return view.as_tensor_map(box_dim=planned.box, **options)
    except ValueError as error:
        ENCODING_FAILED.fail(name=name, plan=planned, error=error)
    except driver_errors() as error:
        ENCODING_FAILED.fail(name=name, plan=planned, error=error)


def _plain_strides(array: DeviceArray) -> tuple[int, ...]:
    """The array's strides; those of extent 1, which do not matter, replaced by strides that the driver takes."""
    strides: list[int] = []
    step = array.item_bytes
    for extent, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        plain = step if extent == 1 else stride
        if strides and extent == 1:
            plain = -(-plain // ALIGNMENT) * ALIGNMENT
        strides.append(plain)
        step = plain * extent
    return tuple(reversed(strides))
