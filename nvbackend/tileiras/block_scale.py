"""The three block-scaled atoms of the seed on the MMA atoms: (atom_K, vecSize) with packed codes and diagnostics.

The codes are one compiler's; no instruction has them. Which PTX kind the hardware multiplies each with is `kind`, where
the seed has other names (docs/divergences.md, tcgen05).
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule, raise_all, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, f32
from nvbackend.intrinsics.words.scale_triples import ACCUMULATOR, TRIPLES, ScaleTriple, no_triple

_ATOM_K_BIT = 32

SAME_SCALES = Rule(
    id="block-scale.scale-types",
    message="expects sfa/sfb element types to be the same",
    fix="give A and B scale factors of one type, not {sfa} and {sfb}",
    why="The instruction says the type of both with one code.",
    reference="tileiras documents: MMA atoms, SM100 UMMA Block-Scaled (atom_K, vecSize) Atoms",
)


@user_facing
@dataclass(frozen=True, slots=True)
class BlockScaledAtom(ScaleTriple):
    """One of the legal triples under the seed's packed code, made by `block_scaled_atom`."""

    @property
    def packed(self) -> int:
        """The seed's code, never 0: atom_K above bit 32, vecSize below."""
        return self.atom_k << _ATOM_K_BIT | self.vec_size


ATOMS: tuple[BlockScaledAtom, ...] = tuple(
    BlockScaledAtom(triple.atom_k, triple.vec_size, triple.multiplicands, triple.scales, triple.kind)
    for triple in TRIPLES
)
"""Every legal triple, in the order of the seed."""


@user_facing
def block_scaled_atom(
    atom_k: int, vec_size: int, a: ElementType, b: ElementType, c: ElementType, sfa: ElementType, sfb: ElementType
) -> BlockScaledAtom:
    """The atom of these numbers and types. Raises, all together, block-scale.accumulator, .scale-types and .atom."""
    raise_all(_faults(atom_k, vec_size, a, b, c, sfa, sfb))
    return next(_matching(atom_k, vec_size, a, b, sfa))


def packed_atom(code: int) -> BlockScaledAtom | None:
    """The atom of this packed code; None for a code without an atom (0 is the seed's error)."""
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
        yield no_triple(atom_k, vec_size, a, b, sfa)
