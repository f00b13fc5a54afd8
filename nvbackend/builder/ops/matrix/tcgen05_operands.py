"""A and B of a tcgen05.mma in shared memory: tiles and their descriptors."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.matrix.operand_descriptor import OperandDescriptor
from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics.mma.wgmma import K_BITS
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.smem_descriptor import PADDED_BITS, Major, SwizzleMode
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor, Tcgen05SmemDescriptor, Tcgen05Swizzle
from nvbackend.isel.select.tcgen05.request import Tcgen05Request
from nvbackend.layout.descriptors.smem_layout import SmemLayout

_SWIZZLES = {
    SwizzleMode.NONE: Tcgen05Swizzle.NONE,
    SwizzleMode.B32: Tcgen05Swizzle.B32,
    SwizzleMode.B64: Tcgen05Swizzle.B64,
    SwizzleMode.B128: Tcgen05Swizzle.B128,
}

TILE = Rule(
    id="tcgen05.operand-tile",
    message="{operand} of the instruction is {wanted}; the tile is {given}",
    fix="lay the tile out so, or say in the instruction descriptor what it is (a, b, transpose_a, transpose_b); "
    "mma.smem_a(k) and smem_b(k) of a tiled MMA give the layout",
    why="The tensor core would read the bits as other numbers, or transposed: wrong results, no fault.",
    reference="PTX ISA 9.7.16.4.2 (instruction descriptor), 9.7.16.3.3 (canonical layouts)",
)


def smem_layout(layout: SmemLayout) -> Tcgen05SmemDescriptor:
    """The descriptor of a tile of `layout` at address 0. The canonical layouts are those of wgmma."""
    return Tcgen05SmemDescriptor(
        0, layout.leading_byte_offset, layout.stride_byte_offset, swizzle=_SWIZZLES[layout.swizzle]
    )


def is_padded(stored_k: int, element: ElementType) -> bool:
    """Whether an instruction that reads `stored_k` such elements of a row reads them with padding after each 16."""
    return element.bits in PADDED_BITS and K_BITS // stored_k > element.bits


def tile_faults(a: object, b: object, descriptor: InstructionDescriptor) -> Iterator[Diagnostic]:
    """What A or B is, where it is a tile, that the instruction descriptor does not say."""
    for name, tile, element, transposed in (
        ("A", a, descriptor.a, descriptor.transpose_a),
        ("B", b, descriptor.b, descriptor.transpose_b),
    ):
        major = Major.MN if transposed else Major.K
        layout = tile.layout if isinstance(tile, SharedTile) else tile
        if not isinstance(layout, SmemLayout | OperandDescriptor):
            continue
        stored = descriptor.k // 2 if descriptor.sparse else descriptor.k
        wanted, actual = (element, major, is_padded(stored, element)), (layout.element, layout.major, layout.padded)
        if actual != wanted:
            yield TILE.diagnose(operand=name, wanted=_described(*wanted), given=_described(*actual))


def _described(element: ElementType, major: Major, padded: object) -> str:
    return f"{'padded ' if padded else ''}{element}, {major}"


def a_extent(request: Tcgen05Request, descriptor: InstructionDescriptor) -> tuple[int, int]:
    """Rows and stored columns of A that one CTA of the group reads."""
    stored = descriptor.k // 2 if descriptor.sparse else descriptor.k
    return descriptor.m // request.cta_group, stored


def b_extent(request: Tcgen05Request, descriptor: InstructionDescriptor) -> tuple[int, int]:
    """Rows (columns of D) and columns of B that one CTA of the group reads."""
    return descriptor.n // request.cta_group, descriptor.k


def operand_extents(
    request: Tcgen05Request,
    descriptor: InstructionDescriptor,
    a: tuple[object, tuple[int, int]],
    b: tuple[object, tuple[int, int]],
) -> dict[str, int]:
    """The bytes of shared memory from where A and B, each from an element on, begin to where they end, where known."""
    extents = {}
    for name, (tile, at), size in (
        ("a_desc", a, a_extent(request, descriptor)),
        ("b_desc", b, b_extent(request, descriptor)),
    ):
        if isinstance(tile, OperandDescriptor):
            extents[name] = tile.reach
        elif isinstance(tile, SharedTile):
            extents[name] = tile.layout.reach(*at, *size)
    return extents
