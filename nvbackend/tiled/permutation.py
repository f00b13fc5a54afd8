"""What may be permuted along M, N and K before atoms are laid over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

from nvbackend.atoms import MmaAtom
from nvbackend.layout import Layout, size
from nvbackend.layout.algebra.inttuple import text
from nvbackend.tiled.rules import PERMUTATION

Permutation: TypeAlias = "int | Layout | None"
"""Of one dimension: the extent of a tile, a layout that orders its elements, or `_`."""
_NAMES = "MNK"


def permutations(
    atom: MmaAtom, atom_layout: Layout, permutation: Sequence[Permutation] | None
) -> tuple[Permutation, Permutation, Permutation]:
    """The permutation of each dimension. Raises tiled-mma.permutation."""
    entries = () if permutation is None else tuple(permutation)
    if len(entries) > len(_NAMES):
        instead = "give at most one entry for M, one for N and one for K"
        problem = f"{len(entries)} entries"
        PERMUTATION.fail(given=text(entries), dimension="M, N, K", mma=atom, problem=problem, instead=instead)
    whole = [*entries, *[None] * (len(_NAMES) - len(entries))]
    m, n, k = (_checked(atom, atom_layout, place, entry) for place, entry in enumerate(whole))
    return m, n, k


def _checked(atom: MmaAtom, atom_layout: Layout, place: int, entry: Any) -> Permutation:
    step = atom.shape[place] * size(atom_layout, place)

    def fail(problem: str, instead: str) -> NoReturn:
        is_extent = isinstance(entry, int) and not isinstance(entry, bool) and entry > 0
        shown = text(entry) if is_extent else str(entry)
        PERMUTATION.fail(given=shown, dimension=_NAMES[place], mma=atom, problem=problem, instead=instead)

    if entry is None:
        return None
    if isinstance(entry, bool) or not isinstance(entry, int | Layout):
        fail("it is neither an extent nor a layout", "give an integer, a layout, or _ for what it is without")
    extent = size(entry) if isinstance(entry, Layout) else entry
    if extent < 1:
        fail("an extent is a positive number", f"let it be {step}, or a multiple of that")
    if extent % step:
        nearest = max(1, -(-extent // step)) * step
        fail(f"its {extent} elements are not a multiple of the {step} that all atoms take", f"let it have {nearest}")
    if isinstance(entry, Layout):
        if sorted(entry.offsets()) != list(range(extent)):
            fail(f"it does not reach every element below {extent} once", "give a layout that only changes the order")
        if place == _NAMES.index("K") and atom.sparsity is not None:
            fail("the stored columns of a sparse A follow its metadata", "leave K of a sparse atom as it is: _")
    return entry
