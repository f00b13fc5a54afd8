"""CuTe's names of the element types: as parts of a name, and as template parameters."""

from __future__ import annotations

from nvbackend.intrinsics.row.types import (
    ElementType,
    b1,
    bf16,
    e2m1,
    e2m3,
    e3m2,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    s8,
    s32,
    tf32,
    u8,
    ue4m3,
    ue8m0,
)

CPP_TYPES: dict[str, ElementType] = {
    "half_t": f16,
    "bfloat16_t": bf16,
    "tfloat32_t": tf32,
    "float": f32,
    "double": f64,
    "int8_t": s8,
    "uint8_t": u8,
    "int32_t": s32,
    **{f"float_{one.name}_t": one for one in (e4m3, e5m2, e2m3, e3m2, e2m1, ue8m0, ue4m3)},
}
"""CUTLASS include/cute/numeric/numeric_types.hpp."""
_NAMES = {element: name for name, element in CPP_TYPES.items()}


def cpp_type(element: ElementType) -> str:
    """The template parameter of a type: `float_e4m3_t`."""
    return _NAMES[element]


def upper(element: ElementType) -> str:
    """A type in the middle of a name: `BF16`; `U1` for b1."""
    return "U1" if element is b1 else element.name.upper()
