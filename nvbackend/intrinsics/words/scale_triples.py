"""Which elements, how many of them to a scale factor, and factors of which type make a block-scaled tcgen05.mma.

PTX ISA 9.7.16.10.7 (block scaling).
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, e2m1, e4m3, e5m2, ue4m3, ue8m0

_REFERENCE = "tileiras documents: MMA atoms, SM100 UMMA Block-Scaled (atom_K, vecSize) Atoms"
_FP8 = (e4m3, e5m2)
_FP4 = (e2m1,)

ACCUMULATOR = Rule(
    id="block-scale.accumulator",
    message="expects c type to be Float32",
    fix="accumulate in f32, not {given}",
    why="Block-scaled instructions have no other accumulator.",
    reference=_REFERENCE,
)
TRIPLE = Rule(
    id="block-scale.atom",
    message="no block-scaled atom has atom_K = {atom_k} and vecSize = {vec_size} for {a} x {b} with factors of {scale}",
    fix="use {legal}",
    why="The instruction does not exist: the factors would apply to other elements.",
    reference=_REFERENCE,
)


@dataclass(frozen=True, slots=True)
class ScaleTriple:
    """`atom_k` elements of K an instruction of `kind`, `vec_size` of them to a scale factor."""

    atom_k: int
    vec_size: int
    multiplicands: tuple[ElementType, ...]
    scales: tuple[ElementType, ...]
    kind: str

    def __str__(self) -> str:
        types, scales = ("/".join(map(str, elements)) for elements in (self.multiplicands, self.scales))
        return f"({self.atom_k}, {self.vec_size}) for {types} with {scales}"


TRIPLES: tuple[ScaleTriple, ...] = (
    ScaleTriple(32, 32, _FP8, (ue8m0,), "mxf8f6f4"),
    ScaleTriple(64, 16, _FP4, (ue8m0, ue4m3), "mxf4nvf4"),
    ScaleTriple(64, 32, _FP4, (ue8m0,), "mxf4"),
)
"""Every legal triple."""


def factor_faults(
    atom_k: int, vec_size: int, a: ElementType, b: ElementType, scale: ElementType
) -> Iterator[Diagnostic]:
    """block-scale.atom where no triple with these numbers has scale factors of this type; A and B are not looked at."""
    near = [triple for triple in TRIPLES if (triple.atom_k, triple.vec_size) == (atom_k, vec_size)]
    if near and not any(scale in triple.scales for triple in near):
        yield no_triple(atom_k, vec_size, a, b, scale)


def no_triple(atom_k: int, vec_size: int, a: ElementType, b: ElementType, scale: ElementType) -> Diagnostic:
    """block-scale.atom for these numbers and types."""
    legal = "; ".join(map(str, TRIPLES))
    return TRIPLE.diagnose(atom_k=atom_k, vec_size=vec_size, a=a, b=b, scale=scale, legal=legal)
