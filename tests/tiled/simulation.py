"""A tiled MMA a second time: places from the formulas of the PTX ISA, products from NumPy.

Nothing here uses thread-value layouts: what an atom's thread has is transcribed in `tests.support.mma_formulas`, and
where the atom lies in the tile is counted out.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from nvbackend.atoms import MmaAtom, Residency
from nvbackend.layout import Layout, size
from nvbackend.tiled import MmaOperand, TiledMMA, gemm
from tests.layout.random_layouts import image
from tests.support import mma_formulas

Place = tuple[int, int]


def atom_places(atom: MmaAtom, operand: MmaOperand) -> list[list[Place]]:
    """(row, column) of every value of every thread of the atom; of B (n, k)."""
    m, n, k = atom.shape
    columns = atom.stored_k if operand is MmaOperand.A else k
    if operand is MmaOperand.C:
        if atom.d_residency is Residency.TENSOR_MEMORY:
            return _rows_in_parts(m, n, atom.threads)
        return _accumulators(atom, m, n)
    rows = m if operand is MmaOperand.A else n
    in_registers = (atom.a_residency if operand is MmaOperand.A else atom.b_residency) is Residency.REGISTERS
    if not in_registers:
        parts = atom.threads if atom.tier >= 100 else 1
        return _rows_in_parts(rows, columns, parts) * (1 if parts > 1 else atom.threads)
    return _multiplicands(atom, operand)


def _rows_in_parts(rows: int, columns: int, parts: int) -> list[list[Place]]:
    each = rows // parts
    return [
        [(row, column) for column in range(columns) for row in range(each * part, each * (part + 1))]
        for part in range(parts)
    ]


def _multiplicands(atom: MmaAtom, operand: MmaOperand) -> list[list[Place]]:
    m = atom.shape[0]
    letters = {"K": ("row", "col"), "MN": ("col", "row")}
    if atom.threads == 8:
        major = atom.a_major if operand is MmaOperand.A else atom.b_major
        count, of_lane = mma_formulas.FOUR_MATRICES[f"{operand.value} {letters[major.value][operand is MmaOperand.B]}"]
        found = [[of_lane(lane, i) for i in range(count)] for lane in (0, 1, 2, 3, 16, 17, 18, 19)]
    elif operand is MmaOperand.A:
        count, formula = mma_formulas.A[(min(m, 16), 8, atom.stored_k), atom.bits]
        found = [
            [_down(formula(lane % 32 // 4, lane % 4, i), lane // 32) for i in range(count)]
            for lane in range(atom.threads)
        ]
    else:
        count, formula = mma_formulas.B[atom.shape, atom.bits]
        found = [[formula(lane // 4, lane % 4, i) for i in range(count)] for lane in range(32)]
    return [[place[::-1] for place in each] for each in found] if operand is MmaOperand.B else found


def _accumulators(atom: MmaAtom, m: int, n: int) -> list[list[Place]]:
    if atom.threads == 8:
        count, of_lane = mma_formulas.FOUR_MATRICES[f"D {atom.c}"]
        return [[of_lane(lane, i) for i in range(count)] for lane in (0, 1, 2, 3, 16, 17, 18, 19)]
    if atom.threads == 32:
        count = m * n // 32
        return [[mma_formulas.d_formula(lane // 4, lane % 4, i) for i in range(count)] for lane in range(32)]
    return [
        [
            (16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (thread % 4) + i % 2)
            for i in range(n // 2)
        ]
        for thread in range(128)
    ]


def _down(place: Place, warp: int) -> Place:
    return place[0] + 16 * warp, place[1]


def atom_threads(atom: MmaAtom) -> list[int]:
    """The numbers of an atom's threads, in their order."""
    return [0, 1, 2, 3, 16, 17, 18, 19] if atom.threads == 8 else list(range(atom.threads))


@functools.cache
def order_of(layout: Layout) -> list[int]:
    """The indices of a permutation."""
    return image(layout)


def permuted(tiled: TiledMMA, place: int, index: int, extent: int, step: int) -> int:
    """Where element `index` of a dimension is that is dealt out in the order of the permutation."""
    given = tiled.permutation_mnk[place]
    if not isinstance(given, Layout):
        return index
    assert extent % size(given) == 0
    tile, inside = divmod(index, size(given))
    return order_of(given)[inside] + size(given) * tile


def element(
    tiled: TiledMMA,
    operand: MmaOperand,
    local: Place,
    atoms: Sequence[int],
    rests: Sequence[int],
    extents: Sequence[int],
) -> Place:
    """(row, column) in the tile of place `local` of an atom, of which several lie side by side, again and again."""
    found = []
    own = {MmaOperand.A: (0, 2), MmaOperand.B: (1, 2), MmaOperand.C: (0, 1)}[operand]
    for inside, which, atom_number, rest, extent in zip(local, own, atoms, rests, extents, strict=True):
        step = tiled.atom.stored_k if (operand, which) == (MmaOperand.A, 2) else tiled.atom.shape[which]
        beside = size(tiled.atom_layout_mnk, which)
        found.append(permuted(tiled, which, inside + step * (atom_number + beside * rest), extent, step))
    return found[0], found[1]


def participants(tiled: TiledMMA) -> list[tuple[int, tuple[int, int, int, int]]]:
    """Every thread with its (V, M, N, K), counted out from the atom layout's own numbers."""
    atoms = image(tiled.atom_layout_mnk)
    shape = [size(mode) for mode in tiled.atom_layout_mnk.modes]
    within = atom_threads(tiled.atom)
    places = [
        (m, n, k) for k in range(shape[2]) for n in range(shape[1]) for m in range(shape[0])
    ]  # the first dimension fastest, as image() counts
    found = []
    for number, place in zip(atoms, places, strict=True):
        for v, lane in enumerate(within):
            # Quad pairs of one warp lie four lanes apart, warps and warpgroups follow each other.
            thread = lane + 4 * (number % 4) + 32 * (number // 4) if len(within) == 8 else lane + len(within) * number
            found.append((thread, (v, *place)))
    return found


def product(tiled: TiledMMA, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> dict[int, np.ndarray[Any, Any]]:
    """Each thread's accumulators after the instructions of `gemm`, for A (M x K) and B (N x K) of one tile.

    Registers are filled through the partitions; what an instruction does with them is done by the formulas.
    """
    atom = tiled.atom
    layouts = {
        MmaOperand.A: Layout(a.shape),
        MmaOperand.B: Layout(b.shape),
        MmaOperand.C: Layout((a.shape[0], b.shape[0])),
    }
    flat = {MmaOperand.A: a.flatten(order="F"), MmaOperand.B: b.flatten(order="F")}
    places = {operand: atom_places(atom, operand) for operand in MmaOperand}
    whole = {each: len(set(map(tuple, places[each]))) == 1 for each in MmaOperand}
    sums: dict[int, np.ndarray[Any, Any]] = {}
    groups: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for thread, (v, *atoms) in participants(tiled):
        groups.setdefault((atoms[0], atoms[1], atoms[2]), []).append((thread, v))
    for members in groups.values():
        slices = [(thread, v, tiled.get_slice(thread)) for thread, v in members]
        first = slices[0][2]
        # Fragments of tiles whose elements lie 128 bytes apart: descriptors count 16 bytes.
        wide = {each: Layout(layout.shape, (128, 128 * layout.shape[0])) for each, layout in layouts.items()}
        fragments = [getattr(first, f"partition_fragment_{each.value}")(wide[each]) for each in MmaOperand]
        parts = {
            (operand, v): getattr(one, f"partition_{operand.value}")(layouts[operand])
            for operand in (MmaOperand.A, MmaOperand.B)
            for _, v, one in slices
        }
        owned = fragments[2].offsets()
        for thread, _, _ in slices:
            sums[thread] = np.full(max(owned) + 1, np.nan)
        for issue in gemm(tiled, *fragments, scale_d=0):
            operands = {}
            for operand, rows, columns, coordinate in (
                (MmaOperand.A, atom.shape[0], atom.stored_k, (None, issue.m, issue.k)),
                (MmaOperand.B, atom.shape[1], atom.shape[2], (None, issue.n, issue.k)),
            ):
                tile = np.full((rows, columns), np.nan)
                for _, v, _ in slices[:1] if whole[operand] else slices:
                    indices = parts[operand, v](*coordinate).offsets()
                    for place, index in zip(places[operand][v], indices, strict=True):
                        tile[place] = flat[operand][index]
                operands[operand] = tile
            result = operands[MmaOperand.A] @ operands[MmaOperand.B].T
            for thread, v, _ in slices:
                registers = issue.c.offsets()
                values = np.array([result[place] for place in places[MmaOperand.C][v]])
                sums[thread][registers] = values + (sums[thread][registers] if issue.scale_d else 0)
    return sums
