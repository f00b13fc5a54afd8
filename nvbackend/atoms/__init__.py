"""MMA atoms: every matrix instruction as the thing that a tiled MMA is made of, under CuTe's name.

An atom says shape, element types, where each operand is, which threads take part, and which of them holds what: `atom`
finds it by name, `atom_of` by the instruction's row, and `check_atom` raises what keeps a program from using it. What
one compiler's documents say about atoms is in `nvbackend.tileiras`.
"""

from nvbackend.atoms.atom import BlockScale, MmaAtom, Residency
from nvbackend.atoms.contract import MmaUse, check_atom, use_of
from nvbackend.atoms.layout_atoms import layout_atom, layout_atom_name
from nvbackend.atoms.names import atom, atom_of, known_atoms
from nvbackend.atoms.spellings import blas_letters, majors_of

__all__ = [
    "BlockScale",
    "MmaAtom",
    "MmaUse",
    "Residency",
    "atom",
    "atom_of",
    "blas_letters",
    "check_atom",
    "known_atoms",
    "layout_atom",
    "layout_atom_name",
    "majors_of",
    "use_of",
]
