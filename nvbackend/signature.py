"""What a kernel takes and how it is launched: the facts that builder, codegen and runtime share."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from nvbackend.diagnostics import Rule, raise_all, record, user_facing
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy.map_elements import ELEMENT_TYPE_OF
from nvbackend.intrinsics.row.types import ElementType, Scalar
from nvbackend.isel.operands.tensor_map_boxes import SWIZZLES, box_faults

__all__ = [
    "BoundTensorMap",
    "Im2col",
    "LaunchBounds",
    "Parameter",
    "ParameterType",
    "Pointer",
    "Scalar",
    "Signature",
    "TensorMap",
]
LARGEST_ALIGNMENT = 1 << 32
"""The largest one that LLVM knows."""
ALIGNMENT = Rule(
    id="pointer.align",
    message="a pointer to {element} with align={given!r}: an alignment is a power of two, in bytes",
    fix="leave it out for 16, which every allocation has, or write align={size} for arrays that begin at any element",
    why="The compiler would take the address for another one, or refuse it far from this line.",
    reference="PTX ISA 5.4.5 (variables: alignment), 11.2.1 (.ptr .align of kernel parameters)",
)
ELEMENT = Rule(
    id="tensor-map.element",
    message="a tensor map of a plain array cannot have elements of {element}",
    fix="use one of {known}",
    why="TMA has no such element type, or expects it packed with gaps that a plain array does not have.",
    reference="CUDA driver API, cuTensorMapEncodeTiled",
)
SWIZZLE_BYTES = Rule(
    id="tensor-map.swizzle-bytes",
    message="a tensor map with swizzle={given}: it swizzles by 0, 32, 64 or 128 bytes",
    fix="pass the number of bytes: swizzle={meant}",
    why="The driver has no other patterns.",
    reference="PTX ISA 5.5.7 (tensor maps: swizzling modes)",
)
CONVOLUTION = Rule(
    id="tensor-map.convolution",
    message=("no convolution has a filter of {extent}, padding {padding}, stride {stride}, dilation {dilation}"),
    fix="give each as many numbers as the filter has dimensions of space; extents, strides and dilations are positive",
    why="The map would walk over other pixels.",
    reference="PTX ISA 5.5.4 (im2col mode: bounding box, traversal stride)",
)
WALKED = Rule(
    id="tensor-map.walked",
    message="{walk} cannot walk over an array of shape {shape}",
    fix="give the shape of the images, {rank} integers: batch, space, channels; and a corner and a stride for each "
    "dimension of space",
    why="The number of places would be that of another array.",
    reference="PTX ISA 5.5.4 (im2col mode: bounding box, traversal stride)",
)
_MEANT = 128


@record
@dataclass(frozen=True)
class Pointer:
    """A kernel parameter that is a global-memory address of elements; `align` in bytes is promised by the caller.

    `const` promises that nothing writes the memory while the kernel runs, neither the kernel by any pointer nor anybody
    else: loads are non-coherent (ld.global.nc), a store through it is refused (memory.constant). `restrict` promises
    that what the kernel writes by this pointer it reaches by no other parameter, and the reverse. The PTX states the
    alignment of parameters that have either. `Pointer[f32]` is `Pointer(f32)`, and what type checkers take for a type.
    A parameter of a device function may be a pointer of `space` "shared" too; its `restrict` promises nothing.
    Raises pointer.align.
    """

    element: ElementType
    align: int = 16
    const: bool = False
    restrict: bool = False
    space: str = "global"

    def __class_getitem__(cls, element: ElementType) -> Pointer:
        return cls(element)

    def __post_init__(self) -> None:
        align = self.align
        if type(align) is not int or not 0 < align <= LARGEST_ALIGNMENT or align & (align - 1):
            size = self.element.bytes_for(1) if isinstance(self.element, ElementType) else 1
            ALIGNMENT.fail(element=self.element, given=align, size=size)


@record
@dataclass(frozen=True, slots=True)
class Im2col:
    """How a tensor map walks over pixels: of an array of `rank` 3 to 5 dimensions, batch, space (D, H, W), channels.

    A pixel's place goes from `lower` to the extent plus `upper` (exclusive) along each dimension of space, outermost
    first: for a convolution the negative padding before, and the padding after minus (the filter's extent - 1). A
    copy starts at its coordinates, goes along W first, and adds its offsets to each place; outside of the array it
    reads zeros. `wide` "w" or "w128" (compute capability 10.0) walks along W alone, so the corners have one number.
    `stride` has the steps of the walk, 1 to 8 along each dimension that is walked, 1 where it is left out; start at
    `lower` plus a multiple of it. PTX ISA 5.5.4 (im2col mode, traversal stride), 5.5.5 (im2col::w).
    """

    rank: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    wide: str | None = None
    stride: tuple[int, ...] | None = None

    @classmethod
    def of_convolution(
        cls,
        extent: tuple[int, ...],
        padding: tuple[int, ...] | None = None,
        stride: tuple[int, ...] | None = None,
        dilation: tuple[int, ...] | None = None,
    ) -> Im2col:
        """The walk over the output pixels of a convolution by a filter of `extent`, such as (3, 3) for H and W.

        The result's pixel p starts at p * stride - padding along each dimension; the offsets of a load are those of its
        tap, times the dilation. `padding` is 0 and the others 1 where they are left out. Raises tensor-map.convolution.
        """
        count = len(extent) if isinstance(extent, tuple | list) else 0
        if not _are_integers(extent, count):
            CONVOLUTION.fail(extent=extent, padding=padding, stride=stride, dilation=dilation)
        pads, steps, spread = padding or (0,) * count, stride or (1,) * count, dilation or (1,) * count
        if not len(pads) == len(steps) == len(spread) == count or min((*extent, *steps, *spread), default=0) < 1:
            CONVOLUTION.fail(extent=extent, padding=padding, stride=stride, dilation=dilation)
        lower = tuple(-pad for pad in pads)
        upper = tuple(pad - (taps - 1) * apart for pad, taps, apart in zip(pads, extent, spread, strict=True))
        return cls(count + 2, lower, upper, stride=None if stride is None else tuple(steps))

    def walked(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """How many positions the walk has along each dimension of an array of `shape`: P, Q of a convolution.

        Raises tensor-map.walked.
        """
        count = self.rank - 2 if self.wide is None else 1
        steps = (1,) * count if self.stride is None else self.stride
        if not _are_integers(shape, self.rank) or not all(
            _are_integers(each, count) for each in (self.lower, self.upper, steps)
        ):
            WALKED.fail(walk=self, shape=shape, rank=self.rank)
        space = shape[1:-1] if self.wide is None else shape[-2:-1]
        every = zip(space, self.lower, self.upper, steps, strict=True)
        return tuple(max(0, -(-(extent + upper - lower) // step)) for extent, lower, upper, step in every)


def _are_integers(numbers: object, count: int) -> bool:
    """Whether it is a sequence of so many integers."""
    return isinstance(numbers, Sequence) and len(numbers) == count and all(type(each) is int for each in numbers)


@record
@dataclass(frozen=True)
class TensorMap:
    """A kernel parameter that is a TMA tensor map (CUtensorMap, 128 bytes, passed by value).

    `box` is the tile one copy moves, outermost dimension first like a NumPy shape, in elements; `swizzle` is 0, 32,
    64 or 128 bytes and must be the swizzle of the shared-memory layout that the tile lands in. With `im2col` the box is
    (pixels, channels), and copies use the mode of that name. An element of tf32 is an f32 of the array, which a load
    rounds to the nearest tf32, ties to even, and a store leaves as it is. Raises tensor-map.element,
    tensor-map.swizzle-bytes, tensor-map.box-rank, tensor-map.box, tensor-map.box-bytes and tensor-map.swizzle.
    """

    element: ElementType
    box: tuple[int, ...]
    swizzle: int = 128
    im2col: Im2col | None = None

    def __post_init__(self) -> None:
        if self.element.name not in ELEMENT_TYPE_OF:
            ELEMENT.fail(element=self.element, known=", ".join(ELEMENT_TYPE_OF))
        if self.swizzle not in SWIZZLES:
            SWIZZLE_BYTES.fail(given=self.swizzle, meant=_MEANT)
        of_pixels = self.im2col is not None
        raise_all([*box_faults(f"of {self.element}", self.element, self.box, self.swizzle, of_pixels=of_pixels)])

    @property
    def rank(self) -> int:
        """The number of dimensions of the array."""
        return len(self.box) if self.im2col is None else self.im2col.rank

    @property
    def bytes(self) -> int:
        """The bytes of a full box in shared memory, which is also what it completes on its mbarrier."""
        count = 1
        for extent in self.box:
            count *= extent
        return self.element.bytes_for(count)

    def bind(self, array: Any) -> BoundTensorMap:
        """The map over `array`: an argument of a launch, which the driver encodes or the simulator reads."""
        return BoundTensorMap(self, array)


@user_facing
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BoundTensorMap:
    """A tensor map over an array. On a GPU the array is one of the device's, in the simulator NumPy's."""

    parameter: TensorMap
    array: Any

    def __repr__(self) -> str:
        return f"<{self.parameter!r} over an array of shape {tuple(self.array.shape)}>"

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The array, which the simulator gives an address."""
        return (self.array,)

    def bytes_of(self, addresses: tuple[int]) -> bytes:
        """The 128 bytes that the simulator reads, for the array at the address. Raises launch.dtype, tensor-map.*."""
        # The checks of arrays are in the runtime, which is above this module.
        runtime = importlib.import_module(f"{__package__}.runtime.simulated")
        (address,) = addresses
        data: bytes = runtime.simulated_bytes(self.parameter, self.array, address)
        return data


ParameterType = Scalar | Pointer | TensorMap


@record
@dataclass(frozen=True, slots=True)
class Parameter:
    """A named kernel parameter; an element type as `type` is a scalar of it."""

    name: str
    type: ParameterType

    def __init__(self, name: str, type: ParameterType | ElementType) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "type", Scalar(type) if isinstance(type, ElementType) else type)


Shape = tuple[int, int, int]
"""Extents along x, y and z."""
Extents = int | Sequence[int]
"""One to three extents, those left out being 1; an integer is an extent along x."""


def shape_of(extents: Extents) -> Shape:
    """Extents along all three axes."""
    x, y, z = (*((extents,) if isinstance(extents, int) else extents), 1, 1)[:3]
    return x, y, z


@record
@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """What a launch must keep to: threads a CTA, CTAs a cluster, dynamic shared bytes, minimum CTAs an SM.

    `shape` and `cluster_shape` are the extents of a CTA and of a cluster along x, y and z: along x alone by default.
    A kernel that `overlaps` may start before the grids before it on the stream have ended: it waits for them itself.
    """

    threads: int
    cluster: int = 1
    dynamic_shared_bytes: int = 0
    min_ctas: int | None = None
    shape: tuple[int, int, int] = (0, 0, 0)
    cluster_shape: tuple[int, int, int] = (0, 0, 0)
    overlaps: bool = False

    def __post_init__(self) -> None:
        if not self.shape[0]:
            object.__setattr__(self, "shape", (self.threads, 1, 1))
        if not self.cluster_shape[0]:
            object.__setattr__(self, "cluster_shape", (self.cluster, 1, 1))


@record
@dataclass(frozen=True, slots=True)
class Signature:
    """A kernel's name, parameters in order, and launch bounds."""

    name: str
    parameters: tuple[Parameter, ...]
    bounds: LaunchBounds

    __repr__ = short_repr
