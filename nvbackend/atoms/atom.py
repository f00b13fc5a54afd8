"""The MMA atom: the facts of one matrix instruction before it is laid over a tile. CuTe's MMA_Traits.

Thread-value layouts say which elements of an operand each thread has, as CuTe writes it: (thread, value) goes to
row + rows * column of the tile: M x K of A, N x K of B, M x N of C. One formula a kind of operand serves all shapes and
widths. PTX ISA 9.7.14.5, 9.7.15.5.1; CUTLASS include/cute/atom/mma_traits_sm*.hpp.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from nvbackend.atoms.rules import OPERAND
from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.fragments.mma import FOUR_MATRICES, QUAD, chunk_width, metadata_threads
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.row.types import ElementType, f64
from nvbackend.intrinsics.words.smem_descriptor import CORE_ROWS, Major
from nvbackend.layout import IntTuple, Layout

if TYPE_CHECKING:
    from nvbackend.layout.drawing.svg import Picture

_REGISTER_BITS = 32
_CHUNKS = 8
"""Groups of elements that a register of metadata speaks of."""
_WHOLE_ROW_BITS = 8
"""Up to this width all metadata of a register belongs to one row of A."""
_PAIR = 2
"""Adjacent elements of an accumulator's row that one thread holds."""

Mode = tuple[int, int]
"""Extent and stride."""


def multiplicand(rows: int, columns: int, bits: int, warps: int = 1) -> Layout:
    """A in registers, M x K, or B as N x K, elements of `bits`: a register has neighbours along K.

    Of a sparse A, `columns` are those stored.
    """
    neighbours = max(1, _REGISTER_BITS // bits)
    block = QUAD * neighbours
    values = ((neighbours, rows), (rows // warps // CORE_ROWS, CORE_ROWS), (columns // block, block * rows))
    return _layout(_threads(rows, neighbours, warps), _only_long(values))


def accumulator(m: int, n: int, warps: int = 1) -> Layout:
    """C and D in registers, M x N, of any width: two neighbours of a row, then the core matrices downwards."""
    down, right = (m // warps // CORE_ROWS, CORE_ROWS), (n // CORE_ROWS, CORE_ROWS * m)
    if warps > 1:
        return _layout(_threads(m, _PAIR, warps), ((_PAIR, m), down, right))  # CuTe keeps the mode of N, also of N = 8
    return _layout(_threads(m, _PAIR, warps), _only_long(((_PAIR, m), down, right)))


def four_matrices_multiplicand(major: Major) -> Layout:
    """A or B of m8n8k4 of f16, in the eight threads that multiply one pair of matrices. PTX ISA 9.7.14.5.1."""
    if major is Major.K:
        return Layout((CORE_ROWS, QUAD), (1, CORE_ROWS))
    return Layout(((QUAD, 2), QUAD), ((CORE_ROWS, QUAD), 1))


def four_matrices_accumulator(bits: int) -> Layout:
    """C or D of m8n8k4 of f16, of 16 or 32 bits. PTX ISA 9.7.14.5.1."""
    if bits < _REGISTER_BITS:
        return Layout((CORE_ROWS, CORE_ROWS), (1, CORE_ROWS))
    return Layout(((2, 2, 2), (2, 2, 2)), ((1, 2 * CORE_ROWS, QUAD), (CORE_ROWS, 2, QUAD * CORE_ROWS)))


def four_matrices_threads() -> Layout:
    """The lanes of the eight threads of the first pair of matrices: CuTe's ThrID."""
    return Layout((QUAD, 2), (1, WARP_SIZE // 2))


def metadata(m: int, k: int, bits: int, warps: int = 1) -> Layout:
    """The elements of a sparse A, M x K unpacked, that a thread's metadata register speaks of: CuTe's ELayout.

    Where only the threads of the sparsity selector give metadata, all have the same layout. PTX ISA 9.7.14.6.2.
    """
    tile = (m // warps, CORE_ROWS, k)
    count, width = metadata_threads(tile, bits), chunk_width(bits)
    down = (m // warps // CORE_ROWS, CORE_ROWS)
    if bits <= _WHOLE_ROW_BITS:  # a register speaks of one row; the next thread's of that eight rows below
        along = _CHUNKS * width
        quad: tuple[Mode, ...] = (down, (count // down[0], along * m), (QUAD // count, 0))
        values: tuple[Mode, ...] = ((along, m),)
    else:
        along = _CHUNKS // down[0] * width
        quad = ((count, along * m), (QUAD // count, 0))
        values = ((along, m), down)
    threads = (*_only_long(quad), (CORE_ROWS, 1), *_only_long(((warps, m // warps),)))
    return _layout(threads, values)


def scale_factors_a(m: int, k: int) -> Layout:
    """The elements of A whose scale factors a thread's register has: CuTe's SFALayout. PTX ISA 9.7.14.3.

    Two threads of a quad have the same; thread-id-a says which of them counts.
    """
    return _layout(((m // CORE_ROWS, CORE_ROWS), (QUAD * CORE_ROWS // m, 0), (CORE_ROWS, 1)), ((k, m),))


def scale_factors_b(n: int, k: int) -> Layout:
    """The elements of B whose scale factors a thread's register has: CuTe's SFBLayout. PTX ISA 9.7.14.3.

    The threads of a quad have the same; thread-id-b says which of them counts.
    """
    return _layout(((QUAD, 0), (CORE_ROWS, 1)), ((k, n),))


def whole(rows: int, columns: int, threads: int) -> Layout:
    """An operand in memory, whole for all threads."""
    return Layout((threads, (rows, columns)), (0, (1, rows)))


def split(rows: int, columns: int, parts: int) -> Layout:
    """An operand in memory of which each of the CTAs of a group has its rows."""
    each = rows // parts
    return Layout((parts, (each, columns)), (each if parts > 1 else 0, (1, rows)))


def _threads(rows: int, neighbours: int, warps: int) -> tuple[Mode, ...]:
    """A quad along the row, eight quads down, and then the warps."""
    lanes = ((QUAD, neighbours * rows), (CORE_ROWS, 1))
    return (*lanes, (warps, rows // warps)) if warps > 1 else lanes


def _only_long(modes: Sequence[Mode]) -> tuple[Mode, ...]:
    """The modes without those of one element, as CuTe writes the layouts of a warp."""
    return tuple(mode for mode in modes if mode[0] > 1)


def _layout(threads: Sequence[Mode], values: Sequence[Mode]) -> Layout:
    modes = (threads, values or ((1, 0),))
    shape, stride = (tuple(_bare([mode[part] for mode in each]) for each in modes) for part in (0, 1))
    return Layout(shape, stride)


def _bare(numbers: list[int]) -> IntTuple:
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


class Residency(enum.Enum):
    """Where an operand is while the instruction runs."""

    REGISTERS = "registers"
    SHARED_DESCRIPTOR = "shared-memory descriptor"
    TENSOR_MEMORY = "tensor memory"

    def __str__(self) -> str:
        return self.value


@user_facing
@dataclass(frozen=True, slots=True)
class BlockScale:
    """Scale factors of type `scale`, one for `vec_size` elements along K of a row of A or a column of B.

    The triples and packed codes that one compiler has for these are `tileiras.block_scale`.
    """

    scale: ElementType
    vec_size: int


@user_facing
@dataclass(frozen=True)
class MmaAtom:
    """One matrix instruction, D = A * B + C, as a tiled MMA is built from it. Made by `atom` and `atom_of`.

    `name` is CuTe's; `tier` the number of the first chip that has it; `shape` (M, N, K) in elements, where a sparse A
    has twice the columns it holds. `bits` is what an element of A or B takes in a register. `threads` issue it
    together: eight of a warp, a warp, a warpgroup; of tcgen05 it is the CTAs. `sparsity` is None, "sp" or
    "sp::ordered_metadata". C is where D is. `weight_stationary` is tcgen05.mma.ws. `make_row` gives the instruction's
    row, and does not count in comparisons; `shape_requires` is what the shape needs of a chip besides the row.
    """

    name: str
    tier: int
    shape: tuple[int, int, int]
    d: ElementType
    a: ElementType
    b: ElementType
    c: ElementType
    a_residency: Residency
    b_residency: Residency
    d_residency: Residency
    threads: int
    bits: int
    a_major: Major
    b_major: Major
    make_row: Callable[[], Row] = field(compare=False, repr=False)
    sparsity: str | None = None
    block_scale: BlockScale | None = None
    weight_stationary: bool = False
    shape_requires: Feature = Feature.NONE

    __repr__ = short_repr

    @property
    def row(self) -> Row:
        """The instruction."""
        return self.make_row()

    @property
    def requires(self) -> Feature:
        """What a chip must have for the instruction, and for its shape where the row does not say it."""
        return self.row.requires | self.shape_requires

    @property
    def stored_k(self) -> int:
        """The columns of A that are stored: K, or half of it where A is sparse."""
        return self.shape[2] if self.sparsity is None else self.shape[2] // 2

    @property
    def thr_id(self) -> Layout:
        """From a thread of the atom to its number in the warp, warpgroup or group of CTAs: CuTe's ThrID."""
        return four_matrices_threads() if self._four_matrices else Layout(self.threads)

    @property
    def layout_a(self) -> Layout:
        """(thread, value) to m + M * k, CuTe's ALayout. Of a sparse A the columns are the stored ones."""
        m, _, _ = self.shape
        if self.a_residency is not Residency.REGISTERS:
            return self._in_memory(m, self.stored_k)
        if self._four_matrices:
            return four_matrices_multiplicand(self.a_major)
        return multiplicand(m, self.stored_k, self.bits, self._warps)

    @property
    def layout_b(self) -> Layout:
        """(thread, value) to n + N * k, CuTe's BLayout."""
        _, n, k = self.shape
        if self.b_residency is not Residency.REGISTERS:
            return self._in_memory(n, k)
        if self._four_matrices:
            return four_matrices_multiplicand(self.b_major)
        return multiplicand(n, k, self.bits)

    @property
    def layout_c(self) -> Layout:
        """(thread, value) to m + M * n of C, CuTe's CLayout."""
        return self._accumulator(self.c)

    @property
    def layout_d(self) -> Layout:
        """(thread, value) to m + M * n of D: that of C, but where one is f16 and the other f32 on sm_70."""
        return self._accumulator(self.d)

    @property
    def layout_e(self) -> Layout | None:
        """(thread, value) to m + M * k of the sparse A, unpacked, that the thread's metadata speaks of: CuTe's ELayout.

        None for a dense A. Of tcgen05 the threads are CTAs; where their metadata lies in tensor memory says `tmem_e`.
        """
        if self.sparsity is None:
            return None
        if self.d_residency is Residency.TENSOR_MEMORY:
            return self._in_memory(self.shape[0], self.shape[2])
        return metadata(self.shape[0], self.shape[2], self.bits, self._warps)

    @property
    def layout_sfa(self) -> Layout | None:
        """(thread, value) to m + M * k of A whose scale factors the thread has: CuTe's SFALayout; else None.

        Elements of one block of `block_scale.vec_size` along K share a factor. Of tcgen05 the threads are CTAs; where
        their factors lie in tensor memory says `tmem_sfa`.
        """
        if self.block_scale is None:
            return None
        if self.d_residency is Residency.TENSOR_MEMORY:
            return self._in_memory(self.shape[0], self.shape[2])
        return scale_factors_a(self.shape[0], self.shape[2])

    @property
    def layout_sfb(self) -> Layout | None:
        """(thread, value) to n + N * k of B whose scale factors the thread has: CuTe's SFBLayout; else None.

        Of tcgen05 each CTA has those of all columns; where they lie in tensor memory says `tmem_sfb`.
        """
        if self.block_scale is None:
            return None
        if self.d_residency is Residency.TENSOR_MEMORY:
            return whole(self.shape[1], self.shape[2], self.threads)
        return scale_factors_b(self.shape[1], self.shape[2])

    @property
    def tmem_e(self) -> Layout | None:
        """(row, k) of a CTA's sparse A, unpacked, to the bit of tensor memory that its metadata begins at.

        CuTe's FrgTypeE. None without metadata in tensor memory, and where a CTA has other than 128 rows: no second
        source says where those are.
        """
        if self.sparsity is None or self.d_residency is not Residency.TENSOR_MEMORY:
            return None
        from nvbackend.atoms.tensor_memory import sparse_metadata
        from nvbackend.intrinsics.maps.tcgen05 import LANES

        rows = self.shape[0] // self.threads
        return None if rows != LANES else sparse_metadata(str(self.row.axes["kind"]))

    @property
    def tmem_sfa(self) -> Layout | None:
        """(row, k, copy) of a CTA's A to the byte of tensor memory that is its scale factor: CuTe's FrgTypeSFA.

        Every copy is wanted. None without scale factors in tensor memory, and for more than four of a row.
        """
        return self._tmem_factors(self.shape[0] // self.threads)

    @property
    def tmem_sfb(self) -> Layout | None:
        """(column, k, copy) of B to the byte of tensor memory that is its scale factor: CuTe's FrgTypeSFB.

        Every copy is wanted. None where `tmem_sfa` is.
        """
        return self._tmem_factors(self.shape[1], shared=self.threads > 1)

    def _tmem_factors(self, rows: int, *, shared: bool = False) -> Layout | None:
        if self.block_scale is None or self.d_residency is not Residency.TENSOR_MEMORY:
            return None
        from nvbackend.atoms.tensor_memory import scale_factors
        from nvbackend.intrinsics.maps.tcgen05 import COLUMN_BYTES, LANES

        split = shared and self.shape[0] // self.threads < LANES
        block = self.block_scale.vec_size
        if self.shape[2] // block > COLUMN_BYTES:  # of K = 96: no second source
            return None
        return scale_factors(rows, block, self.shape[2] // block, split=split)

    def _accumulator(self, element: ElementType) -> Layout:
        m, n, _ = self.shape
        if self.d_residency is not Residency.REGISTERS:
            return self._in_memory(m, n)
        if self._four_matrices:
            return four_matrices_accumulator(element.bits)
        return accumulator(m, n, self._warps)

    @property
    def _warps(self) -> int:
        return self.threads // WARP_SIZE

    @property
    def _four_matrices(self) -> bool:
        return self.shape == FOUR_MATRICES and self.a is not f64

    def _in_memory(self, rows: int, columns: int) -> Layout:
        if self.d_residency is Residency.TENSOR_MEMORY:
            return split(rows, columns, self.threads)
        return whole(rows, columns, self.threads)

    def operand_layouts(self) -> dict[str, tuple[Layout, tuple[int, int]]]:
        """By name, the thread-value layouts that the atom has, each with the rows and columns of its tile.

        A, B (N x K), C, D; E for the elements that metadata speaks of, SFA and SFB for those that have scale factors.
        """
        m, n, k = self.shape
        views = {
            "A": (self.layout_a, (m, self.stored_k)),
            "B": (self.layout_b, (n, k)),
            "C": (self.layout_c, (m, n)),
            "D": (self.layout_d, (m, n)),
            "E": (self.layout_e, (m, k)),
            "SFA": (self.layout_sfa, (m, k)),
            "SFB": (self.layout_sfb, (n, k)),
        }
        return {name: (layout, tile) for name, (layout, tile) in views.items() if layout is not None}

    def picture(self, operand: str = "C", *, group: int | None = None) -> Picture:
        """Who has which element of A, B (N x K), C or D, whose metadata speaks of it (E), or whose factor it has.

        Those are SFA and SFB. By threads, with `group` 32 by warps, of tcgen05 by CTAs. Raises atom.operand.
        """
        from nvbackend.layout.pictures.pictures import CTAS, thread_values

        has = self.operand_layouts()
        if operand.upper() not in has:
            OPERAND.fail(atom=self, given=operand, has=", ".join(has))
        layout, tile = has[operand.upper()]
        in_memory = self.d_residency is Residency.TENSOR_MEMORY
        return thread_values(layout, tile, title=f"{operand.upper()} of {self}", group=CTAS if in_memory else group)

    def _repr_svg_(self) -> str:
        return self.picture().svg

    def __str__(self) -> str:
        return self.name
