"""The eight canonical shared-memory atoms of wgmma, for every element width, as CuTe's layouts.

CuTe calls them `GMMA::Layout_MN_SW128_Atom<T>` and so on; `SmemLayout` tiles them over an operand.
"""

from __future__ import annotations

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.majors import CORE_ROWS, Major
from nvbackend.intrinsics.words.smem_descriptor import ADDRESS_SHIFT, UNIT
from nvbackend.intrinsics.words.smem_descriptor import Swizzle as SwizzleMode
from nvbackend.layout.algebra.composed import BYTE_BITS, ComposedLayout, SmemPtr
from nvbackend.layout.algebra.layout import Layout
from nvbackend.layout.algebra.recast import upcast
from nvbackend.layout.algebra.swizzle import Swizzle

_ROW_BITS = (CORE_ROWS - 1).bit_length()


def swizzle_function(mode: SwizzleMode) -> Swizzle:
    """What a swizzle mode does to byte addresses: `Sw<3,4,3>` for 128 B, `Sw<0,4,3>` for none."""
    return Swizzle((mode.bytes // UNIT).bit_length() - 1, ADDRESS_SHIFT, _ROW_BITS)


@user_facing
def gmma_atom(major: Major, swizzle: SwizzleMode, element: ElementType | int) -> ComposedLayout:
    """The atom of an operand: (M or N, K), contiguous along `major`, one row of the swizzle pattern wide, 8 rows.

    `element` is a type or its width in bits. `gmma_atom(Major.MN, Swizzle.B128, f16)` is
    `Sw<3,4,3> o smem_ptr o (_64,_8):(_1,_64)`. Raises layout-algebra.recast for widths that do not divide a row.
    CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp; measured on an H200.
    """
    width = swizzle.bytes * BYTE_BITS
    bits = element if isinstance(element, int) else element.bits
    rows, columns = (Layout(CORE_ROWS, width), Layout(width, 1))
    modes = (rows, columns) if major is Major.K else (columns, rows)
    plain = Layout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))
    return upcast(ComposedLayout(swizzle_function(swizzle), SmemPtr(1), plain), bits)
