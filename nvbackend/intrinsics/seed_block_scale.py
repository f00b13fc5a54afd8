"""The three block-scaled atoms of the seed on the MMA atoms: (atom_K, vecSize) with packed codes and diagnostics.

The codes are one compiler's; no instruction has them. Which PTX kind the hardware multiplies each with is `kind`, where
the seed has other names (docs/divergences.md, tcgen05).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nvbackend.diagnostics import Diagnostic, Rule, raise_all, user_facing
from nvbackend.intrinsics.types import ElementType, e2m1, e4m3, e5m2, f32, ue4m3, ue8m0

_REFERENCE = "tileiras documents: MMA atoms, SM100 UMMA Block-Scaled (atom_K, vecSize) Atoms"
_ATOM_K_BIT = 32
_FP8 = (e4m3, e5m2)
_FP4 = (e2m1,)

ACCUMULATOR = Rule(
    id="block-scale.accumulator",
    message="expects c type to be Float32",
    fix="accumulate in f32, not {given}",
    why="Block-scaled instructions have no other accumulator.",
    reference=_REFERENCE,
)
SAME_SCALES = Rule(
    id="block-scale.scale-types",
    message="expects sfa/sfb element types to be the same",
    fix="give A and B scale factors of one type, not {sfa} and {sfb}",
    why="The instruction says the type of both with one code.",
    reference=_REFERENCE,
)
ATOM = Rule(
    id="block-scale.atom",
    message="no block-scaled atom has atom_K = {atom_k} and vecSize = {vec_size} for {a} x {b} with factors of {scale}",
    fix="use {legal}",
    why="There is no such instruction: the factors would be taken for those of other elements.",
    reference=_REFERENCE,
)
RULES = (ACCUMULATOR, SAME_SCALES, ATOM)


@user_facing
@dataclass(frozen=True, slots=True)
class BlockScaledAtom:
    """One of the legal triples: `atom_k` elements of K an instruction, `vec_size` of them to a scale factor."""

    atom_k: int
    vec_size: int
    multiplicands: tuple[ElementType, ...]
    scales: tuple[ElementType, ...]
    kind: str

    @property
    def packed(self) -> int:
        """The seed's code, never 0: atom_K above bit 32, vecSize below."""
        return self.atom_k << _ATOM_K_BIT | self.vec_size

    def __str__(self) -> str:
        types, scales = ("/".join(map(str, one)) for one in (self.multiplicands, self.scales))
        return f"({self.atom_k}, {self.vec_size}) for {types} with {scales}"


ATOMS: tuple[BlockScaledAtom, ...] = (
    BlockScaledAtom(32, 32, _FP8, (ue8m0,), "mxf8f6f4"),
    BlockScaledAtom(64, 16, _FP4, (ue8m0, ue4m3), "mxf4nvf4"),
    BlockScaledAtom(64, 32, _FP4, (ue8m0,), "mxf4"),
)
"""Every legal triple, in the order of the seed."""


@user_facing
def block_scaled_atom(
    atom_k: int, vec_size: int, a: ElementType, b: ElementType, c: ElementType, sfa: ElementType, sfb: ElementType
) -> BlockScaledAtom:
    """The atom of these numbers and types. Raises, all together, block-scale.accumulator, .scale-types and .atom."""
    raise_all(_faults(atom_k, vec_size, a, b, c, sfa, sfb))
    return next(_matching(atom_k, vec_size, a, b, sfa))


def factor_faults(
    atom_k: int, vec_size: int, a: ElementType, b: ElementType, scale: ElementType
) -> Iterator[Diagnostic]:
    """block-scale.atom where no triple with these numbers has scale factors of this type; A and B are not looked at."""
    near = [atom for atom in ATOMS if (atom.atom_k, atom.vec_size) == (atom_k, vec_size)]
    if near and not any(scale in atom.scales for atom in near):
        yield _no_atom(atom_k, vec_size, a, b, scale)


def packed_atom(code: int) -> BlockScaledAtom | None:
    """The atom whose packed code this is, None where there is none (0 is the seed's error)."""
    return next((atom for atom in ATOMS if atom.packed == code), None)


def _matching(
    atom_k: int, vec_size: int, a: ElementType, b: ElementType, scale: ElementType
) -> Iterator[BlockScaledAtom]:
    for atom in ATOMS:
        same = (atom.atom_k, atom.vec_size) == (atom_k, vec_size)
        if same and {a, b} <= set(atom.multiplicands) and scale in atom.scales:
            yield atom


def _faults(
    atom_k: int, vec_size: int, a: ElementType, b: ElementType, c: ElementType, sfa: ElementType, sfb: ElementType
) -> Iterator[Diagnostic]:
    if c is not f32:
        yield ACCUMULATOR.diagnose(given=c)
    if sfa is not sfb:
        yield SAME_SCALES.diagnose(sfa=sfa, sfb=sfb)
    elif not any(_matching(atom_k, vec_size, a, b, sfa)):
        yield _no_atom(atom_k, vec_size, a, b, sfa)


def _no_atom(atom_k: int, vec_size: int, a: ElementType, b: ElementType, scale: ElementType) -> Diagnostic:
    legal = "; ".join(map(str, ATOMS))
    return ATOM.diagnose(atom_k=atom_k, vec_size=vec_size, a=a, b=b, scale=scale, legal=legal)
