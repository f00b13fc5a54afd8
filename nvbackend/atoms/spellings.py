"""Parts of CuTe's names: element types, there and as template parameters, and the letters of BLAS for majorness.

N is not transposed (column-major), T transposed (row-major).
"""

from __future__ import annotations

from nvbackend.atoms.rules import BLAS
from nvbackend.diagnostics import user_facing
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
from nvbackend.intrinsics.words.smem_descriptor import Major

CPP_TYPES: dict[str, ElementType] = {
    "half_t": f16,
    "bfloat16_t": bf16,
    "tfloat32_t": tf32,
    "float": f32,
    "double": f64,
    "int8_t": s8,
    "uint8_t": u8,
    "int32_t": s32,
    **{f"float_{element.name}_t": element for element in (e4m3, e5m2, e2m3, e3m2, e2m1, ue8m0, ue4m3)},
}
"""CUTLASS include/cute/numeric/numeric_types.hpp."""
_NAMES = {element: name for name, element in CPP_TYPES.items()}


def cpp_type(element: ElementType) -> str:
    """The template parameter of a type: `float_e4m3_t`."""
    return _NAMES[element]


def upper(element: ElementType) -> str:
    """A type in the middle of a name: `BF16`; `U1` for b1."""
    return "U1" if element is b1 else element.name.upper()


_A = {"N": Major.MN, "T": Major.K}
_B = {"N": Major.K, "T": Major.MN}


@user_facing
def majors_of(letters: str) -> tuple[Major, Major]:
    """Majorness of A and B: for NT both are MN-major, for TN both are K-major. Raises atom.blas for other letters."""
    if len(letters) != 2 or not set(letters) <= set(_A):
        BLAS.fail(given=letters)
    return _A[letters[0]], _B[letters[1]]


@user_facing
def blas_letters(a_major: Major, b_major: Major) -> str:
    """The letters of A and B: "TN" where both are K-major."""
    return "".join(
        letter
        for table, major in ((_A, a_major), (_B, b_major))
        for letter, of_letter in table.items()
        if of_letter is major
    )
