"""The canonical shared-memory atoms of wgmma by CuTe's names: `GMMA::Layout_MN_SW128_Atom<half_t>`."""

from __future__ import annotations

from nvbackend.atoms.spellings import CPP_TYPES, cpp_type
from nvbackend.diagnostics import Rule, user_facing
from nvbackend.diagnostics.classes.late_pattern import late_pattern
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.layout import ComposedLayout, gmma_atom

_SWIZZLES = {"INTER": SwizzleMode.NONE, "SW32": SwizzleMode.B32, "SW64": SwizzleMode.B64, "SW128": SwizzleMode.B128}
_NAME = late_pattern(r"(?:cute::)?(?:(?:SM90::)?GMMA::)?Layout_(MN|K)_(INTER|SW\d+)_Atom<(?:cute::|cutlass::)?(\w+)>")

LAYOUT_NAME = Rule(
    id="atom.layout-name",
    message="{given!r} is not the name of a shared-memory atom",
    fix="write Layout_, MN or K, one of {swizzles}, and _Atom<T> with T one of {types}",
    why="An operand in another order of bytes is another matrix.",
    reference="CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp",
)


@user_facing
def layout_atom(name: str) -> ComposedLayout:
    """The atom that CuTe calls `name`, with its namespaces or without.

    "GMMA::Layout_MN_SW128_Atom<half_t>" is `gmma_atom(Major.MN, SwizzleMode.B128, f16)`. Raises atom.layout-name.
    """
    match = _NAME.fullmatch("".join(name.split())) if isinstance(name, str) else None
    if match is None or match[2] not in _SWIZZLES or match[3] not in CPP_TYPES:
        LAYOUT_NAME.fail(given=name, swizzles=", ".join(_SWIZZLES), types=", ".join(CPP_TYPES))
    return gmma_atom(Major(match[1]), _SWIZZLES[match[2]], CPP_TYPES[match[3]])


@user_facing
def layout_atom_name(major: Major, swizzle: SwizzleMode, element: ElementType) -> str:
    """CuTe's name of `gmma_atom(major, swizzle, element)`."""
    mode = {swizzle_mode: text for text, swizzle_mode in _SWIZZLES.items()}[swizzle]
    return f"GMMA::Layout_{major.value}_{mode}_Atom<{cpp_type(element)}>"
