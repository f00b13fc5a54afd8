"""The shared-memory atoms of wgmma, and two constraints on the extents of a tile, which know nothing of each other.

CuTe calls the atoms `GMMA::Layout_MN_SW128_Atom<T>` and so on; `SmemLayout` tiles them over an operand. The instruction
reads whole operands, (M or N, K) of its shape. The swizzle repeats whole atoms, of its own extents. A tile that is a
whole number of one kind need not be a whole number of the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule, raise_all, user_facing, with_article
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.smem_descriptor import (
    ADDRESS_SHIFT,
    CORE_ROWS,
    UNIT,
    Major,
    SwizzleMode,
    element_faults,
)
from nvbackend.layout.algebra.layout import Layout, size
from nvbackend.layout.algebra.simplify import upcast
from nvbackend.layout.algebra.swizzle import BYTE_BITS, ComposedLayout, SmemPtr, Swizzle

_ROW_BITS = (CORE_ROWS - 1).bit_length()


def swizzle_function(mode: SwizzleMode) -> Swizzle:
    """What a swizzle mode does to byte addresses: `Sw<3,4,3>` for 128 B, `Sw<0,4,3>` for none."""
    return Swizzle((mode.bytes // UNIT).bit_length() - 1, ADDRESS_SHIFT, _ROW_BITS)


@user_facing
def gmma_atom(major: Major, swizzle: SwizzleMode, element: ElementType | int) -> ComposedLayout:
    """The atom of an operand: (M or N, K), contiguous along `major`, one row of the swizzle pattern wide, 8 rows.

    `element` is a type or its width in bits. `gmma_atom(Major.MN, SwizzleMode.B128, f16)` is
    `Sw<3,4,3> o smem_ptr o (_64,_8):(_1,_64)`. Raises layout-algebra.recast for widths that do not divide a row.
    CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp; measured on an H200.
    """
    if not isinstance(major, Major):
        raise TypeError("the boundary says which")  # any other object would pass for MN
    width = swizzle.bytes * BYTE_BITS
    bits = element if isinstance(element, int) else element.bits
    rows, columns = (Layout(CORE_ROWS, width), Layout(width, 1))
    modes = (rows, columns) if major is Major.K else (columns, rows)
    plain = Layout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))
    return upcast(ComposedLayout(swizzle_function(swizzle), SmemPtr(1), plain), bits)


_NOTES = "CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp (GMMA layout atoms)"
MMA_ATOM = Rule(
    id="tile.mma-atom",
    message="{tile}: {given} {axis} are not a whole number of the {step} that one instruction reads{besides}",
    fix="use {nearest} {axis}, which are whole instructions and whole swizzle atoms",
    why="The last instruction would read past the tile, or a part of the tile would never be multiplied.",
    reference=f"PTX ISA 9.7.15.2 (wgmma shapes); {_NOTES}",
)
SWIZZLE_ATOM = Rule(
    id="tile.swizzle-atom",
    message="{tile}: {given} {axis} are not a whole number of the {step} of the swizzle atom {atom}{besides}",
    fix="use {nearest} {axis}, which are whole swizzle atoms and whole instructions{narrower}",
    why="The swizzle permutes whole atoms; a part of one overlaps the next, and chunks are read from other places.",
    reference=f"PTX ISA 9.7.15.5.1.2 (shared memory matrix layout); {_NOTES}",
)
_AXES = ("rows", "columns")


def tile_faults(
    major: Major,
    swizzle: SwizzleMode,
    element: ElementType,
    tile: tuple[int, int],
    instruction: tuple[int, int],
) -> Iterator[Diagnostic]:
    """What keeps a tile of (M or N, K) from being multiplied by instructions that read `instruction` of it each.

    The instruction's constraint, the swizzle's, and that wgmma reads elements of other than 16 bits K-major: each is
    an error of its own (tile.mma-atom, tile.swizzle-atom, layout.major, layout.element).
    """
    atom = gmma_atom(major, swizzle, element)
    name = with_article(f"{major} tile of {tile[0]} x {tile[1]} {element} with {swizzle} swizzle")
    yield from element_faults(major, element)
    for place, (axis, extent, step) in enumerate(zip(_AXES, tile, instruction, strict=True)):
        own = size(atom, place)
        both = math.lcm(step, own)
        nearest = max(1, -(-extent // both)) * both
        if not _is_whole(extent, step):
            besides = f", though a multiple of the swizzle atom's {own}" if _is_whole(extent, own) else ""
            yield MMA_ATOM.diagnose(tile=name, given=extent, axis=axis, step=step, besides=besides, nearest=nearest)
        if not _is_whole(extent, own):
            besides = f", though a multiple of the {step} that one instruction reads" if _is_whole(extent, step) else ""
            yield SWIZZLE_ATOM.diagnose(
                tile=name,
                given=extent,
                axis=axis,
                step=own,
                atom=atom.layout_b,
                besides=besides,
                nearest=nearest,
                narrower=_narrower(major, element, place, extent),
            )


def _is_whole(extent: int, step: int) -> bool:
    return extent > 0 and extent % step == 0


def _narrower(major: Major, element: ElementType, place: int, extent: int) -> str:
    """The swizzles whose atoms fit, as an alternative."""
    fitting = [mode for mode in SwizzleMode if _is_whole(extent, size(gmma_atom(major, mode, element), place))]
    return f"; or {' or '.join(map(str, fitting))} swizzle" if fitting else ""


@user_facing
def check_tile(
    major: Major,
    swizzle: SwizzleMode,
    element: ElementType,
    tile: tuple[int, int],
    instruction: tuple[int, int],
) -> None:
    """Raises all that `tile_faults` finds: of a tile of (bM, bK) or (bN, bK) elements, for operands of (64 or N, K).

    `check_tile(Major.MN, SwizzleMode.B32, f16, (32, 64), (64, 16))` raises tile.mma-atom alone: 32 is two swizzle atoms
    of 16, and half an instruction. Raises tile.mma-atom, tile.swizzle-atom, layout.major, layout.element.
    CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp (GMMA layout atoms).
    """
    if not isinstance(major, Major):
        raise TypeError("the boundary says which")
    raise_all(tile_faults(major, swizzle, element, tile, instruction))
