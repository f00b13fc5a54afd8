"""Which thread holds what, for every row that has fragments in registers: one map for each such operand.

A family that has fragments adds a line to `FRAGMENT_MAPS`; whatever shows or checks fragments goes through it. What a
tcgen05.mma reads and writes in tensor memory has no threads, but a map of its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.fragments import mma as fragments_mma
from nvbackend.intrinsics.fragments import warpgroup as fragments
from nvbackend.intrinsics.maps import matrix as fragments_matrix
from nvbackend.intrinsics.maps import tcgen05 as fragments_tcgen05
from nvbackend.intrinsics.maps import tcgen05 as tcgen05_operand_cells
from nvbackend.intrinsics.mma import block_scale as mma_block_scale
from nvbackend.intrinsics.mma import families, mma, tcgen05, wgmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import ElementType, f16

Position = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FragmentMap:
    """Who holds an operand: each of `threads` threads has `elements` of it, `index` at `position(thread, index)`.

    `operand` is the row's operand; `tile` says in words what the positions are positions of, `counted` which threads'
    registers the hardware reads where those of others do not count.
    """

    operand: str
    threads: int
    elements: int
    tile: str
    position: Callable[[int, int], Position]
    counted: str = ""


def _wgmma(row: Row) -> Iterator[FragmentMap]:
    axes: dict[str, Any] = dict(row.axes)
    if "shape" not in axes:
        return
    (m, n, k), a = axes["shape"], axes["a"]
    assert isinstance(a, ElementType)
    yield FragmentMap(
        "d", WARPGROUP_SIZE, m * n // WARPGROUP_SIZE, f"(row, column) of D, {m} x {n}", fragments.accumulator_position
    )
    stored = k // 2 if axes["sparse"] else k
    if axes["a_in_registers"]:
        packed = ", without the elements left out" if axes["sparse"] else ""
        yield FragmentMap(
            "a",
            WARPGROUP_SIZE,
            m * stored // WARPGROUP_SIZE,
            f"(row, column) of A, {m} x {stored}{packed}",
            partial(fragments.a_position, bits=a.bits),
        )
    if axes["sparse"]:
        yield FragmentMap(
            "metadata",
            WARPGROUP_SIZE,
            fragments.METADATA_CHUNKS,
            f"(row, first column) of A, {m} x {k}, that each 4 bits speak of",
            partial(fragments.metadata_chunk, bits=a.bits),
            "" if a.bits == 8 else "the metadata of threads with thread / 2 % 2 = selector counts",
        )


def _mma(row: Row) -> Iterator[FragmentMap]:
    """Each operand of an mma.sync; of metadata and scale factors, as a thread has them whose register counts."""
    axes: dict[str, Any] = dict(row.axes)
    shape, bits, sparse = axes["shape"], mma.element_bits(row), axes["sparsity"] is not None
    m, n, k = shape
    if shape == fragments_mma.FOUR_MATRICES and axes["a"] is f16:
        yield from _four_matrices(axes)
        return
    stored = (m, n, k // 2) if sparse else shape
    packed = ", without the elements left out" if sparse else ""
    held = (
        ("d", m * n, f"D, {m} x {n}", partial(fragments_mma.d_position, shape)),
        ("a", m * stored[2], f"A, {m} x {stored[2]}{packed}", partial(fragments_mma.a_position, stored, bits)),
        ("b", k * n, f"B, {k} x {n}", partial(fragments_mma.b_position, shape, bits)),
        ("c", m * n, f"C, {m} x {n}", partial(fragments_mma.d_position, shape)),
    )
    for name, elements, tile, position in held:
        yield FragmentMap(name, WARP_SIZE, elements // WARP_SIZE, f"(row, column) of {tile}", position)
    if sparse:
        tile = f"(row, first column) of A, {m} x {k}, that each 4 bits speak of"
        position = partial(fragments_mma.metadata_chunk, shape, bits)
        threads = fragments_mma.metadata_threads(shape, bits)
        counted = "" if threads == fragments_mma.QUAD else f"the metadata of lanes with lane % 4 / {threads} = selector"
        yield FragmentMap(
            "metadata", WARP_SIZE, fragments.METADATA_CHUNKS, tile, position, counted and f"{counted} counts"
        )
    if axes["scale"] is not None:
        yield from _scales(axes)


def _scales(axes: dict[str, Any]) -> Iterator[FragmentMap]:
    """The scale factors as the threads have them that thread-id names: a byte each, from byte-id on."""
    m, n, _ = axes["shape"]
    factors = mma_block_scale.scale_vector(axes["kind"], axes["scale_vec"])
    yield FragmentMap(
        "scale_a",
        WARP_SIZE,
        factors,
        f"(row, factor) of A's scale factors, {m} x {factors}",
        fragments_mma.scale_a_position,
        "the factors of lanes with lane % 4 / 2 = thread-id-a count, from byte byte-id-a on",
    )
    yield FragmentMap(
        "scale_b",
        WARP_SIZE,
        factors,
        f"(factor, column) of B's scale factors, {factors} x {n}",
        fragments_mma.scale_b_position,
        "the factors of lanes with lane % 4 = thread-id-b count, from byte byte-id-b on",
    )


def _four_matrices(axes: dict[str, Any]) -> Iterator[FragmentMap]:
    layouts = {"a": axes["a_layout"], "b": axes["b_layout"]}
    elements = fragments_mma.QUAD
    for name, position in (
        ("d", partial(fragments_mma.four_matrices_d_position, axes["d"])),
        ("a", partial(fragments_mma.four_matrices_a_position, layouts["a"])),
        ("b", partial(fragments_mma.four_matrices_b_position, layouts["b"])),
        ("c", partial(fragments_mma.four_matrices_d_position, axes["c"])),
    ):
        count = elements if name in layouts else 2 * elements
        tile = f"(row, column) of {name.upper()} number lane / {elements} % {elements}"
        yield FragmentMap(name, WARP_SIZE, count, tile, position)


def _tcgen05(row: Row) -> Iterator[FragmentMap]:
    """The registers of a load or store; the second half of 16x32bx2 as if its half_split were 0."""
    shape = row.axes.get("shape")
    if not isinstance(shape, str) or all(operand.name != "values" for operand in row.operands):
        return
    registers = row.operand("values").count
    if row.axes.get("pack") or row.axes.get("unpack"):
        tile = "(lane, 16-bit column) from the tensor-memory address on"
        yield FragmentMap("values", WARP_SIZE, 2 * registers, tile, partial(fragments_tcgen05.packed_element, shape))
    else:
        tile = "(lane, 32-bit column) from the tensor-memory address on"
        yield FragmentMap("values", WARP_SIZE, registers, tile, partial(fragments_tcgen05.tmem_position, shape))


def _matrix(row: Row) -> Iterator[FragmentMap]:
    """What ldmatrix and stmatrix move; both have one operand that is a fragment."""
    axes: dict[str, Any] = dict(row.axes)
    shapes = matrix_move.LOADED if row.opcode == "ldmatrix" else matrix_move.STORED
    shape = next(matrix for matrix in shapes if (matrix.name, matrix.element) == (axes["shape"], axes["element"]))
    rows = fragments_matrix.rows_of(shape)
    yield FragmentMap(
        "fragment",
        WARP_SIZE,
        axes["count"] * fragments_matrix.elements_a_lane(shape),
        f"(matrix, row, column) in shared memory; lane {rows} * matrix + row gives the row's address",
        partial(fragments_matrix.matrix_position, shape, axes["transposed"]),
    )


def _movmatrix(_: Row) -> Iterator[FragmentMap]:
    elements = fragments_matrix.elements_a_lane(matrix_move.HALVES)
    source = partial(fragments_mma.d_position, (8, 8, 0))
    yield FragmentMap("source", WARP_SIZE, elements, "(row, column) of the matrix", source)
    tile = "(row, column) of the matrix before it was transposed"
    yield FragmentMap("fragment", WARP_SIZE, elements, tile, fragments_matrix.transposed_position)


@dataclass(frozen=True, slots=True)
class CellMap:
    """Where an operand lies in tensor memory, in instructions with `m` rows of D over all CTAs of the group.

    `position(*index)` is the place of an element, for every index below `extents`; `tile` says in words what an index
    and what a place is, `note` what else holds.
    """

    operand: str
    m: int
    extents: tuple[int, int]
    tile: str
    position: Callable[[int, int], Position]
    note: str = ""


_ANY_N = 64
"""The columns of D of which maps are given: every kind has so many."""
_OWN_ROWS = tcgen05_operand_cells.LANES


def cell_maps(row: Row) -> Iterator[CellMap]:
    """The maps of what a tcgen05.mma has in tensor memory, for each M that its qualifiers leave; none of other rows.

    The instruction descriptor has M and N, so not each of these M need be legal for the kind.
    """
    axes: dict[str, Any] = dict(row.axes)
    if row.opcode not in (families.TCGEN05_MMA, families.TCGEN05_MMA_WS):
        return
    form = (axes["cta_group"], axes["weight_stationary"], axes["sparse"])
    for (*other, m), layout in fragments_tcgen05.ACCUMULATOR_LAYOUTS.items():
        if tuple(other) != form:
            continue
        position = partial(fragments_tcgen05.accumulator_cell, m, _ANY_N, **dict(zip(_FORM, form, strict=True)))
        tile = f"(row, column) of D, {m} x {_ANY_N}, in layout {layout.name}: (CTA of the group, lane, 32-bit column)"
        yield CellMap("d", m, (m, _ANY_N), tile, position)
        yield from _factor_cells(axes, m)
        if axes["sparse"] and m == _OWN_ROWS * axes["cta_group"]:
            yield _metadata_cells(axes["kind"], m)


_FORM = ("cta_group", "weight_stationary", "sparse")


def _factor_cells(axes: dict[str, Any], m: int) -> Iterator[CellMap]:
    kind, vector = axes["kind"], axes.get("scale_vector")
    if not tcgen05.KINDS[kind].block_scale:
        return
    factors = tcgen05_operand_cells.factors(kind, vector)
    split = axes["cta_group"] == 2 and m == _OWN_ROWS
    place = "(lane, 32-bit column, byte) with a scale-factor ID of 0"
    copies = "the same again {} lanes further on"
    own = m // axes["cta_group"]
    yield CellMap(
        "scale_a",
        m,
        (own, factors),
        f"(row, factor) of the {own} rows of A in a CTA: {place}",
        tcgen05_operand_cells.scale_a_cell,
        copies.format("32, 64 and 96"),
    )
    yield CellMap(
        "scale_b",
        m,
        (_ANY_N, factors),
        f"(column, factor) of the {_ANY_N} columns of B: {place}",
        partial(tcgen05_operand_cells.scale_b_cell, _ANY_N, split=split),
        copies.format("32" if split else "32, 64 and 96"),
    )


def _metadata_cells(kind: str, m: int) -> CellMap:
    chunks = tcgen05_operand_cells.METADATA[kind].chunks
    elements = tcgen05_operand_cells.METADATA[kind].elements
    tile = f"(row, chunk) of the {_OWN_ROWS} rows of A in a CTA, a chunk of {elements} elements: "
    place = "(lane, 32-bit column, first of 4 bits) with a sparsity selector of 0"
    position = partial(tcgen05_operand_cells.metadata_cell, kind)
    return CellMap("metadata", m, (_OWN_ROWS, chunks), tile + place, position)


FRAGMENT_MAPS: dict[str, Callable[[Row], Iterator[FragmentMap]]] = {
    wgmma.fence().family: _wgmma,
    families.MMA: _mma,
    families.TCGEN05: _tcgen05,
    **dict.fromkeys(("ldmatrix", "stmatrix"), _matrix),
    matrix_move.movmatrix().family: _movmatrix,
}
"""By the rows' family. A new family is one line."""


def fragment_maps(row: Row) -> list[FragmentMap]:
    """The maps of `row`'s operands; none where it has no fragments in registers."""
    maps = FRAGMENT_MAPS.get(row.family)
    return list(maps(row)) if maps is not None else []
