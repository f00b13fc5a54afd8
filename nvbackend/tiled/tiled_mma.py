"""An MMA atom laid over a tile: CuTe's TiledMMA, as pure layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from nvbackend.atoms import MmaAtom, Residency
from nvbackend.atoms import atom as atom_named
from nvbackend.diagnostics import DiagnosticError, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    complement,
    composition,
    logical_divide,
    make_layout,
    right_inverse,
    size,
    tiled_product,
    zipped_divide,
)
from nvbackend.layout.algebra.inttuple import leaves, modes, text
from nvbackend.layout.algebra.layout import is_static
from nvbackend.tiled.fragment import Fragment, Partition, make_fragment, place_of, thread_coordinate
from nvbackend.tiled.operand import Beside, MmaOperand, operand_named
from nvbackend.tiled.permutation import Permutation, permutations
from nvbackend.tiled.rules import ATOM_LAYOUT, OPERAND, PERMUTATION, TILE

if TYPE_CHECKING:
    from nvbackend.layout.drawing.svg import Picture

DIMENSIONS = "MNK"
_CUTS = 256
"""So many operands are remembered with how they are cut: those of a kernel come again and again."""
AtomLayout: TypeAlias = "IntTuple | Layout"


@user_facing
def make_tiled_mma(
    atom: MmaAtom | str, atom_layout: AtomLayout = (1, 1, 1), permutation: Sequence[Permutation] | None = None
) -> TiledMMA:
    """CuTe's make_tiled_mma: `atom`, an atom or its name, as many times along M, N and K as `atom_layout` says.

    Each atom of the layout has threads of its own: `(2, 1, 1)` of wgmma is two warpgroups below each other. What
    `atom_layout` and `permutation` leave out at the end is 1, and `_`. An entry of `permutation` is the tile's extent
    along M, N or K (a multiple of what the threads take at once, which is what `_` means), or a layout that says
    in which order the tile's rows or columns are dealt out. Raises tiled-mma.atom-layout, tiled-mma.permutation, and
    for a name atom.name.
    CUTLASS include/cute/atom/mma_atom.hpp.
    """
    instruction = atom_named(atom) if isinstance(atom, str) else atom
    atoms = atom_layout if isinstance(atom_layout, Layout) else Layout(atom_layout)
    if len(atoms.modes) > len(DIMENSIONS):
        ATOM_LAYOUT.fail(given=atoms, problem=f"it has {len(atoms.modes)} modes")
    layout = make_layout(*atoms.modes, *[Layout(1, 0)] * (len(DIMENSIONS) - len(atoms.modes)))
    _check_numbers(atoms)
    tiled = TiledMMA(instruction, layout, permutations(instruction, layout, permutation))
    _check_orders(tiled)
    return tiled


def _check_orders(tiled: TiledMMA) -> None:
    """Raises tiled-mma.permutation where an order is such that no layout says which elements an atom has."""
    orders = [place for place in range(len(DIMENSIONS)) if isinstance(tiled.permutation_mnk[place], Layout)]
    try:
        for operand in MmaOperand if orders else ():
            tiled.thrfrg(operand, Layout(tiled.extents(operand)))
    except DiagnosticError as error:
        PERMUTATION.fail(
            given=text(tiled.permutation_mnk),
            dimension=", ".join(DIMENSIONS[place] for place in orders),
            mma=tiled.atom,
            problem=f"its atoms have no constant steps ({error.diagnostics[0].message})",
            instead="let the modes be multiples of what an atom takes of them, or divide it",
        )


def _check_numbers(layout: Layout) -> None:
    """Raises tiled-mma.atom-layout where atoms share a number, or a number does not determine the atom."""
    covered = 1
    for stride, extent in sorted(zip(leaves(layout.stride), leaves(layout.shape), strict=True)):
        if extent > 1:
            if stride < covered:
                problem = f"its modes overlap: a step of {stride} after numbers below {covered}"
                ATOM_LAYOUT.fail(given=layout, problem=problem)
            covered += (extent - 1) * stride


@user_facing
@dataclass(frozen=True, repr=False)
class TiledMMA:
    """`atom` over a tile, made by `make_tiled_mma`.

    `atom_layout_mnk` goes from (M, N, K) of an atom to its number, `permutation_mnk` has what is permuted along each
    dimension, None for nothing. A of a sparse atom is counted in the columns that are stored, half of K.
    """

    atom: MmaAtom
    atom_layout_mnk: Layout
    permutation_mnk: tuple[Permutation, Permutation, Permutation] = (None, None, None)

    @property
    def thr_layout_vmnk(self) -> Layout:
        """(thread of the atom, atom along M, along N, along K) to the thread: CuTe's ThrLayoutVMNK."""
        return self._thr_layout

    @cached_property
    def _thr_layout(self) -> Layout:
        return tiled_product(self.atom.thr_id, self.atom_layout_mnk)

    @property
    def size(self) -> int:
        """The threads that take part; of tcgen05, the CTAs."""
        return size(self._thr_layout)

    @property
    def tile_size_mnk(self) -> tuple[int, int, int]:
        """M, N and K of what all threads together take at once."""
        m, n, k = (self._tiler(place, self.atom.shape[place]) for place in range(3))
        return size(m), size(n), size(k)

    def _tiler(self, place: int, extent: int) -> Layout:
        """What is cut off a dimension at a time, of which an atom has `extent`."""
        entry = self.permutation_mnk[place]
        if isinstance(entry, Layout):
            return entry
        if entry is None:
            return Layout(extent * size(self._thr_layout, place + 1))
        return Layout(entry * extent // self.atom.shape[place])  # a sparse A has fewer columns

    def get_layoutA_TV(self) -> Layout:
        """(thread, value) to m + M * k of one `tile_size_mnk` of A; threads of the same rows have the same elements.

        Raises tiled-mma.atom-layout where the threads have gaps that no layout describes.
        """
        return self.layout_tv(MmaOperand.A)

    def get_layoutB_TV(self) -> Layout:
        """(thread, value) to n + N * k of one `tile_size_mnk` of B."""
        return self.layout_tv(MmaOperand.B)

    def get_layoutC_TV(self) -> Layout:
        """(thread, value) to m + M * n of one `tile_size_mnk` of C; with atoms along K each has a partial sum."""
        return self.layout_tv(MmaOperand.C)

    def get_slice(self, thread: Any) -> ThrMMA:
        """The part of `thread`, an integer or a builder's value: CuTe's get_slice and get_thread_slice.

        Of tcgen05 it is the CTA's rank in its group. Raises tiled-mma.thread for an integer out of range; a
        value goes round, as in CuTe.
        """
        thread = place_of(thread, self._thr_layout, self)
        return ThrMMA(self, thread, thread_coordinate(self._thr_layout, thread))

    def get_atom(self, number: Any) -> ThrMMA:
        """What all threads of one atom of the atom layout have in common, such as descriptors: the slice of its first.

        `number` is that of the atom, an integer or a builder's value, as `atom_layout_mnk` gives it: of wgmma the
        warpgroup. Raises tiled-mma.thread for an integer out of range; a value wraps around.
        """
        atoms = make_layout(Layout(1), *self.atom_layout_mnk.modes)
        number = place_of(number, atoms, self)
        return ThrMMA(self, number, thread_coordinate(atoms, number))

    def partition_shape_A(self, shape: IntTuple) -> IntTuple:
        """(MMA, MMA_M, MMA_K, ...) of a tile (M, K, ...). Raises tiled-mma.tile."""
        return self._first(MmaOperand.A, shape)

    def partition_shape_B(self, shape: IntTuple) -> IntTuple:
        """(MMA, MMA_N, MMA_K, ...) of a tile (N, K, ...). Raises tiled-mma.tile."""
        return self._first(MmaOperand.B, shape)

    def partition_shape_C(self, shape: IntTuple) -> IntTuple:
        """(MMA, MMA_M, MMA_N, ...) of a tile (M, N, ...). Raises tiled-mma.tile."""
        return self._first(MmaOperand.C, shape)

    def make_fragment_A(self, partitioned: Partition | AnyLayout) -> Fragment:
        """What the instructions take for A: descriptors, registers or tensor memory. Raises tiled-mma.fragment."""
        return make_fragment(self.atom, MmaOperand.A, partitioned)

    def make_fragment_B(self, partitioned: Partition | AnyLayout) -> Fragment:
        """What the instructions take for B. Raises tiled-mma.fragment."""
        return make_fragment(self.atom, MmaOperand.B, partitioned)

    def make_fragment_C(self, partitioned: Partition | AnyLayout) -> Fragment:
        """The accumulators: registers, or tensor memory. Raises tiled-mma.fragment and tiled-mma.tensor-memory."""
        return make_fragment(self.atom, MmaOperand.C, partitioned)

    def partition(self, operand: MmaOperand, layout: AnyLayout, vmnk: tuple[Any, Any, Any, Any]) -> Partition:
        """The part of a layout that the thread at `vmnk`, a coordinate of `thr_layout_vmnk`, has."""
        return _part(self.thrfrg(operand, layout), layout, operand.places, vmnk)

    def partition_beside(self, beside: Beside, layout: AnyLayout, vmnk: tuple[Any, Any, Any, Any]) -> Partition:
        """The part of a layout of all of A or B for which a thread holds metadata or scale factors.

        Raises tiled-mma.operand for an atom that has nothing of this kind, and tiled-mma.tile.
        """
        tv = beside.layout_of(self.atom)
        if tv is None:
            OPERAND.fail(given=f"{beside.value} of {self.atom}")
        extents = tuple(self.atom.shape[place] for place in beside.places)

        def cut(inner: Layout) -> Layout:
            return self._cut_by(beside.value, inner, beside.places, extents, tv)

        divided = layout.with_layout(cut) if isinstance(layout, ComposedLayout) else cut(layout)
        return _part(divided, layout, beside.places, vmnk)

    def atom_extents(self, operand: MmaOperand) -> tuple[int, int]:
        """Rows and columns that one atom has of an operand."""
        rows, columns = (self.atom.shape[place] for place in operand.places)
        return rows, self.atom.stored_k if operand is MmaOperand.A else columns

    def _first(self, operand: MmaOperand, shape: IntTuple) -> IntTuple:
        values, rest = self._cut(operand, Layout(shape))[1].modes
        return values.shape, *modes(rest.shape)

    def thrfrg(self, operand: MmaOperand, layout: AnyLayout) -> AnyLayout:
        """((ThrV,(ThrM,ThrK)),(FrgV,(RestM,RestK,...))) of a layout (M,K,...); N for B and C. Raises tiled-mma.tile."""
        if isinstance(layout, ComposedLayout):
            return layout.with_layout(lambda inner: self._cut(operand, inner))
        return self._cut(operand, layout)

    def _cut(self, operand: MmaOperand, layout: Layout) -> Layout:
        if self._is_static and is_static(layout):
            return _cut_before(self, operand, layout)
        return self._cut_anew(operand, layout)

    @cached_property
    def _is_static(self) -> bool:
        permuted = (each for each in self.permutation_mnk if isinstance(each, Layout))
        return is_static(self.atom_layout_mnk, *permuted)

    def _cut_anew(self, operand: MmaOperand, layout: Layout) -> Layout:
        tv = operand.layout_of(self.atom)
        return self._cut_by(operand.value, layout, operand.places, self.atom_extents(operand), tv)

    def _cut_by(
        self, name: str, layout: Layout, places: tuple[int, int], extents: tuple[int, ...], tv: Layout
    ) -> Layout:
        """Threads and values of a layout along `places`, of which an atom has `extents`, dealt out as `tv` says."""
        tilers = tuple(self._tiler(*pair) for pair in zip(places, extents, strict=True))
        self._check_tile(name, layout, tuple(map(size, tilers)))
        atoms = zipped_divide(logical_divide(layout, tilers), tuple(map(Layout, extents)))
        values = make_layout(composition(atoms[0], tv), atoms[1])
        threads = tuple(Layout(size(self._thr_layout, place + 1)) for place in places)
        return zipped_divide(values, (None, threads))

    def _check_tile(self, name: str, layout: Layout, steps: tuple[int, ...]) -> None:
        extents = tuple(map(size, layout.modes[:2]))
        if len(extents) == 2 and not any(extent % step for extent, step in zip(extents, steps, strict=True)):
            return
        nearest = tuple(-(-extent // step) * step for extent, step in zip(extents, steps, strict=False))
        is_of_warpgroups = name == MmaOperand.C.value and self.size > size(self.atom.thr_id) == WARPGROUP_SIZE
        TILE.fail(
            operand=name,
            given=text(layout.shape),
            mma=self,
            step=" x ".join(map(str, steps)),
            nearest=" x ".join(map(str, nearest if len(nearest) == 2 else steps)),
            elements=" for all warpgroups, with acc.elements(warpgroup) in each" if is_of_warpgroups else "",
        )

    def extents(self, operand: MmaOperand) -> tuple[int, int]:
        """Rows and columns of an operand that all threads together take at once."""
        rows, columns = map(size, map(self._tiler, operand.places, self.atom_extents(operand)))
        return rows, columns

    def layout_tv(self, operand: MmaOperand) -> Layout:
        """What `get_layoutA_TV`, `_B` and `_C` give, by operand."""
        threads, values = self._cut(operand, Layout(self.extents(operand))).modes
        own = dict(zip(operand.places, threads[1].modes, strict=True))
        others = [own.get(place, Layout(size(self._thr_layout, place + 1), 0)) for place in range(3)]
        return make_layout(composition(make_layout(threads[0], *others), self._coordinates()), values)

    def _coordinates(self) -> Layout:
        """From a thread to its coordinate (V, M, N, K) as one integer; numbers that no thread has go round.

        Raises tiled-mma.atom-layout where no layout does that: three pairs of quads, of the four in a warp.
        """
        whole = make_layout(self._thr_layout, complement(self._thr_layout))
        coordinates = composition(Layout((self.size, 1), (1, 0)), right_inverse(whole))
        assert isinstance(coordinates, Layout)
        threads = self._thr_layout.offsets()
        if [coordinates(thread) for thread in threads] != list(range(self.size)):
            ATOM_LAYOUT.fail(given=self._thr_layout, problem="between its threads are gaps of no constant step")
        return coordinates

    def picture(self, operand: MmaOperand | str = MmaOperand.C, *, group: int | None = None) -> Picture:
        """Which thread has which element of one `tile_size_mnk` of an operand; with `group` 32, which warp.

        Of tcgen05 it is by CTAs. Raises tiled-mma.operand.
        """
        from nvbackend.layout.pictures.pictures import CTAS, thread_values

        which = operand_named(operand)
        if self.atom.d_residency is Residency.TENSOR_MEMORY:
            group = CTAS
        layout, title = self.layout_tv(which), f"{which.value} of {self}"
        return thread_values(layout, self.extents(which), title=title, group=group)

    def _repr_svg_(self) -> str:
        return self.picture(group=WARP_SIZE).svg

    def __str__(self) -> str:
        atoms = "" if size(self.atom_layout_mnk) == 1 else f" x {self.atom_layout_mnk}"
        permuted = any(each is not None for each in self.permutation_mnk)
        return f"{self.atom}{atoms}" + (f" permuted by {text(self.permutation_mnk)}" if permuted else "")

    def __repr__(self) -> str:
        return f"make_tiled_mma({self.atom.name!r}, {self.atom_layout_mnk!r}, {self.permutation_mnk!r})"


@lru_cache(maxsize=_CUTS)
def _cut_before(mma: TiledMMA, operand: MmaOperand, layout: Layout) -> Layout:
    return mma._cut_anew(operand, layout)


def _part(cut: AnyLayout, layout: AnyLayout, places: tuple[int, int], vmnk: tuple[Any, Any, Any, Any]) -> Partition:
    """What one thread has of a layout that is cut into threads and values."""
    plain = cut.layout_b if isinstance(cut, ComposedLayout) else cut
    v, *mnk = vmnk
    threads = v, tuple(mnk[place] for place in places)
    kept, offset = plain.slice_and_offset(threads, (None, (None,) * len(plain[1, 1].modes)))
    start = (plain[0], threads)
    if isinstance(layout, ComposedLayout):
        return Partition(replace(layout, layout_b=kept), offset, start)
    return Partition(kept, offset, start)


@user_facing
@dataclass(frozen=True)
class ThrMMA:
    """What `TiledMMA.get_slice(thread)` gives.

    `vmnk` is the thread's place: its number in the atom, and that of the atom along M, N and K.
    """

    tiled_mma: TiledMMA
    thread: Any
    vmnk: tuple[Any, Any, Any, Any]

    def partition_A(self, layout: AnyLayout) -> Partition:
        """(MMA, MMA_M, MMA_K, ...) of a tensor (M, K, ...): tCsA. Raises tiled-mma.tile.

        What is in memory all threads of an atom have whole; what is in registers each has its own part of.
        """
        return self.tiled_mma.partition(MmaOperand.A, layout, self.vmnk)

    def partition_B(self, layout: AnyLayout) -> Partition:
        """(MMA, MMA_N, MMA_K, ...) of a tensor (N, K, ...), which is B transposed: tCsB. Raises tiled-mma.tile."""
        return self.tiled_mma.partition(MmaOperand.B, layout, self.vmnk)

    def partition_C(self, layout: AnyLayout) -> Partition:
        """(MMA, MMA_M, MMA_N, ...) of a tensor (M, N, ...): tCgC. Raises tiled-mma.tile."""
        return self.tiled_mma.partition(MmaOperand.C, layout, self.vmnk)

    def partition_beside(self, beside: Beside, layout: AnyLayout) -> Partition:
        """(MMA, MMA_M or MMA_N, MMA_K, ...) of all of A or B that this thread has metadata or scale factors of.

        Of a sparse A that is (M, K, ...) with the columns that are not stored. Raises tiled-mma.operand and
        tiled-mma.tile.
        """
        return self.tiled_mma.partition_beside(beside, layout, self.vmnk)

    def partition_shape_A(self, shape: IntTuple) -> IntTuple:
        """The shape of `partition_A` of a tile. Raises tiled-mma.tile."""
        return self.tiled_mma.partition_shape_A(shape)

    def partition_shape_B(self, shape: IntTuple) -> IntTuple:
        """The shape of `partition_B` of a tile. Raises tiled-mma.tile."""
        return self.tiled_mma.partition_shape_B(shape)

    def partition_shape_C(self, shape: IntTuple) -> IntTuple:
        """The shape of `partition_C` of a tile. Raises tiled-mma.tile."""
        return self.tiled_mma.partition_shape_C(shape)

    def make_fragment_A(self, partitioned: Partition | AnyLayout) -> Fragment:
        """As `TiledMMA.make_fragment_A`: tCrA."""
        return self.tiled_mma.make_fragment_A(partitioned)

    def make_fragment_B(self, partitioned: Partition | AnyLayout) -> Fragment:
        """As `TiledMMA.make_fragment_B`: tCrB."""
        return self.tiled_mma.make_fragment_B(partitioned)

    def make_fragment_C(self, partitioned: Partition | AnyLayout) -> Fragment:
        """As `TiledMMA.make_fragment_C`: tCrC."""
        return self.tiled_mma.make_fragment_C(partitioned)

    def partition_fragment_A(self, layout: AnyLayout) -> Fragment:
        """The fragment of the thread's part of A. Raises tiled-mma.tile and tiled-mma.fragment."""
        return self.make_fragment_A(self.partition_A(layout))

    def partition_fragment_B(self, layout: AnyLayout) -> Fragment:
        """The fragment of the thread's part of B. Raises tiled-mma.tile and tiled-mma.fragment."""
        return self.make_fragment_B(self.partition_B(layout))

    def partition_fragment_C(self, layout: AnyLayout) -> Fragment:
        """The fragment of the thread's part of C. Raises tiled-mma.tile and tiled-mma.fragment."""
        return self.make_fragment_C(self.partition_C(layout))
