"""The letters of BLAS for the majorness of A and B: N not transposed (column-major), T transposed (row-major)."""

from __future__ import annotations

from nvbackend.atoms.rules import BLAS
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.words.majors import Major

_A = {"N": Major.MN, "T": Major.K}
_B = {"N": Major.K, "T": Major.MN}


@user_facing
def majors_of(letters: str) -> tuple[Major, Major]:
    """Majorness of A and B: of NT both are MN-major, of TN both K-major. Raises atom.blas for other letters."""
    if len(letters) != 2 or not set(letters) <= set(_A):
        BLAS.fail(given=letters)
    return _A[letters[0]], _B[letters[1]]


@user_facing
def blas_letters(a_major: Major, b_major: Major) -> str:
    """The letters of A and B: "TN" where both are K-major."""
    return "".join(
        letter for table, major in ((_A, a_major), (_B, b_major)) for letter, one in table.items() if one is major
    )
