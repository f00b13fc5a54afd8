"""The layout algebra of CuTe: layouts as functions from coordinates to indices, and what can be done with them.

Names are CuTe's. `str(layout)` is CuTe's text, `parse` reads it; Python integers are static (`_64`), `Dynamic`
ones are not (`512`). Layouts do not change, can be compared and hashed, and are exact. An operation whose result would
not be what its name promises raises a diagnostic with a rule `layout-algebra.*`. Called with a builder's values, a
layout emits its address arithmetic. `make_gmma_desc`, `make_umma_desc` and `smem_desc` make matrix descriptors of
layouts, by the table `FORMS`, or raise `descriptor.*`; `desc_layout` leads back. Importing this loads neither LLVM nor
NumPy.
"""

import importlib
from typing import TYPE_CHECKING, Any

from nvbackend.layout.algebra.composition import complement, composition, left_inverse, right_inverse
from nvbackend.layout.algebra.inttuple import Dynamic, IntTuple, _
from nvbackend.layout.algebra.layout import Layout, depth, make_layout, make_ordered_layout, rank, size
from nvbackend.layout.algebra.simplify import (
    coalesce,
    downcast,
    filter,  # noqa: A004
    filter_zeros,
    flatten,
    group,
    recast_layout,
    replace,
    upcast,
)
from nvbackend.layout.algebra.swizzle import AnyLayout, ComposedLayout, SmemPtr, Swizzle, cosize
from nvbackend.layout.algebra.tiling import (
    blocked_product,
    flat_divide,
    flat_product,
    logical_divide,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from nvbackend.layout.descriptors.descriptor import (
    DescriptorIterator,
    desc_layout,
    make_gmma_desc,
    make_umma_desc,
    smem_desc,
)
from nvbackend.layout.descriptors.operand import FORMS, CanonicalForm
from nvbackend.layout.descriptors.tile_atoms import check_tile, gmma_atom

if TYPE_CHECKING:
    from nvbackend.layout import pictures
    from nvbackend.layout.algebra.parse import parse
    from nvbackend.layout.banks.conflicts import BankAccess, bank_conflicts, ldmatrix_conflicts

__all__ = [
    "FORMS",
    "AnyLayout",
    "BankAccess",
    "CanonicalForm",
    "ComposedLayout",
    "DescriptorIterator",
    "Dynamic",
    "IntTuple",
    "Layout",
    "SmemPtr",
    "Swizzle",
    "_",
    "bank_conflicts",
    "blocked_product",
    "check_tile",
    "coalesce",
    "complement",
    "composition",
    "cosize",
    "depth",
    "desc_layout",
    "downcast",
    "filter",
    "filter_zeros",
    "flat_divide",
    "flat_product",
    "flatten",
    "gmma_atom",
    "group",
    "ldmatrix_conflicts",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_gmma_desc",
    "make_layout",
    "make_ordered_layout",
    "make_umma_desc",
    "parse",
    "pictures",
    "raked_product",
    "rank",
    "recast_layout",
    "replace",
    "right_inverse",
    "size",
    "smem_desc",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "upcast",
    "zipped_divide",
    "zipped_product",
]


_LATE = {"parse": "algebra.parse"} | dict.fromkeys(
    ("BankAccess", "bank_conflicts", "ldmatrix_conflicts"), "banks.conflicts"
)


def __getattr__(name: str) -> Any:
    """What few programs use, imported at its first use: they draw, read layouts, or count bank conflicts."""
    if name == "pictures":
        return importlib.import_module(f"{__name__}.{name}")
    if name in _LATE:
        return getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
