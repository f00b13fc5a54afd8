"""What a kernel takes and how it is launched: the facts that builder, codegen and runtime share."""

from __future__ import annotations

from dataclasses import dataclass

from nvbackend.intrinsics.types import ElementType


@dataclass(frozen=True, slots=True)
class Scalar:
    """A kernel parameter passed by value."""

    element: ElementType


@dataclass(frozen=True, slots=True)
class Pointer:
    """A kernel parameter that is a global-memory address of elements; `align` in bytes is promised by the caller."""

    element: ElementType
    align: int = 16


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A kernel parameter that is a TMA tensor map (CUtensorMap, 128 bytes, passed by value).

    `box` is the tile one copy moves, outermost dimension first like a NumPy shape, in elements; `swizzle` is 0, 32,
    64 or 128 bytes and must be the swizzle of the shared-memory layout that the tile lands in.
    """

    element: ElementType
    box: tuple[int, ...]
    swizzle: int = 128

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.box)

    @property
    def bytes(self) -> int:
        """The bytes one full box takes in shared memory, which is what it completes on its mbarrier."""
        count = 1
        for extent in self.box:
            count *= extent
        return self.element.bytes_for(count)


ParameterType = Scalar | Pointer | TensorMap


@dataclass(frozen=True, slots=True)
class Parameter:
    """A named kernel parameter."""

    name: str
    type: ParameterType


@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """What a launch must keep to: threads a CTA, CTAs a cluster, dynamic shared bytes, minimum CTAs an SM."""

    threads: int
    cluster: int = 1
    dynamic_shared_bytes: int = 0
    min_ctas: int | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """A kernel's name, parameters in order, and launch bounds."""

    name: str
    parameters: tuple[Parameter, ...]
    bounds: LaunchBounds
