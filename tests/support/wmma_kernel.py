"""One warp that loads A, B and C, multiplies, and stores D: the kernel that the numbers of wmma are tested with.

Matrices arrive as the bytes of their images in memory, so the host decides where each element is.
"""

from __future__ import annotations

from dataclasses import dataclass

from nvbackend.builder.core.memory import Address
from nvbackend.builder.kernel.kernel import FinishedKernel, KernelBuilder
from nvbackend.builder.values.values import Value
from nvbackend.intrinsics.row.types import ElementType, u32, u64
from nvbackend.isel.select.wmma.request import WmmaRequest
from nvbackend.signature import Parameter, Pointer

WARP = 32
ALIGNMENT = 32
"""Bytes that every fragment's matrix may want to be aligned to."""


@dataclass(frozen=True)
class Placement:
    """How the matrices lie: the stride of each in elements (None where lines follow at once), layouts of C and D."""

    strides: dict[str, int | None]
    c_layout: str = "row"
    d_layout: str = "col"
    space: str | None = "global"
    shared_bytes: int = 0


def wmma_kernel(request: WmmaRequest, placement: Placement, *, turns: int = 1) -> FinishedKernel:
    """D = A * B (`turns` times) + C. Parameters: the images of A, B, C and D, each u32.

    In space "shared" all goes through shared memory, `shared_bytes` a matrix; in space None addresses are generic.
    """
    names = ("a", "b", "c", "d")
    parameters = [Parameter(name, Pointer(u32, align=ALIGNMENT)) for name in names]
    k = KernelBuilder("wmma_numbers", "sm_90a", threads=WARP, parameters=parameters)
    images = dict(zip(names, k.arguments, strict=True))
    homes = {name: _home(k, image, placement) for name, image in images.items()}
    if placement.space == "shared":
        for name in names:
            _copy(k, images[name], homes[name], placement.shared_bytes)
        k.barrier.sync()
    elements = {"a": request.a, "b": request.b, "c": request.c, "d": request.d}
    layouts = {"a": request.a_layout, "b": request.b_layout, "c": placement.c_layout, "d": placement.d_layout}
    places = {name: _address(home, elements[name], placement.space) for name, home in homes.items()}
    shape = "m{}n{}k{}".format(*request.shape)
    a, b, c = (
        k.wmma.load(name, shape, elements[name], places[name], layout=layouts[name], stride=placement.strides[name])
        for name in names[:3]
    )
    options = {"satfinite": request.satfinite, "rounding": request.rounding, "popc": request.popc}
    d = k.wmma.mma(a, b, c, request.d, **options)
    for _ in range(turns - 1):
        d = k.wmma.mma(a, b, d, request.d, **options)
    k.wmma.store(places["d"], d, layout=layouts["d"], stride=placement.strides["d"])
    if placement.space == "shared":
        k.barrier.sync()
        _copy(k, homes["d"], images["d"], placement.shared_bytes)
    return k.finish()


def _home(k: KernelBuilder, image: Address, placement: Placement) -> Address:
    if placement.space != "shared":
        return image
    return k.shared(u32, placement.shared_bytes // 4, align=ALIGNMENT)


def _copy(k: KernelBuilder, source: Address, destination: Address, size: int) -> None:
    with k.range(k.thread_id(), size // 4, WARP) as word:
        destination[word] = source[word]


def _address(home: Address, element: ElementType, space: str | None) -> Address | Value:
    return home.cast(element) if space is not None else home.bytes.bitcast(u64)
