"""A copy atom laid over a tile: CuTe's TiledCopy and ThrCopy, as pure layouts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    coalesce,
    composition,
    cosize,
    filter,  # noqa: A004
    left_inverse,
    logical_product,
    make_layout,
    raked_product,
    right_inverse,
    size,
    zipped_divide,
)
from nvbackend.layout.algebra.layout import is_static
from nvbackend.layout.algebra.simplify import flat_modes, from_flat
from nvbackend.tiled.copy_atom import CopyAtom
from nvbackend.tiled.copy_rules import FRAGMENT, THREADS, TILE
from nvbackend.tiled.fragment import Partition

if TYPE_CHECKING:
    from nvbackend.layout.drawing.svg import Picture

_CUTS = 256
"""So many tiles are remembered with how they are cut: those of a kernel come again and again."""


class Multiplier(Protocol):
    """What a tiled copy of an operand needs of a tiled MMA."""

    @property
    def tile_size_mnk(self) -> tuple[int, int, int]:
        """M, N and K of what all threads together take at once."""

    def get_layoutA_TV(self) -> Layout:
        """(thread, value) to m + M * k."""

    def get_layoutB_TV(self) -> Layout:
        """(thread, value) to n + N * k."""

    def get_layoutC_TV(self) -> Layout:
        """(thread, value) to m + M * n."""


@user_facing
def make_tiled_copy(atom: CopyAtom, thr_layout: Layout, val_layout: Layout | None = None) -> TiledCopy:
    """CuTe's make_tiled_copy: threads laid out as `thr_layout`, each with the values of `val_layout` side by side.

    Both go from coordinates of the tile, (M, N), to the number of a thread and of a value; the tile is their product.
    Raises copy.tile where they name a place twice or not at all, and copy.threads.
    """
    values = Layout(1) if val_layout is None else val_layout
    tile = raked_product(thr_layout, values)
    wanted = size(thr_layout) * size(values)
    inverse = right_inverse(tile)
    if size(inverse) != wanted:
        TILE.fail(thr_layout=thr_layout, val_layout=values, covered=size(inverse), wanted=wanted)
    tv = composition(inverse, Layout((size(thr_layout), size(values))))
    assert isinstance(tv, Layout)
    return TiledCopy(atom, tv, tuple(map(size, tile.modes)))


@user_facing
def make_tiled_copy_A(atom: CopyAtom, mma: Multiplier) -> TiledCopy:
    """The copy whose threads get the part of A, (M, K), that the tiled MMA expects. Raises copy.threads.

    Of a sparse A the columns are the stored ones.
    """
    m, layout = mma.tile_size_mnk[0], mma.get_layoutA_TV()
    return TiledCopy(atom, layout, (m, cosize(layout) // m))


@user_facing
def make_tiled_copy_B(atom: CopyAtom, mma: Multiplier) -> TiledCopy:
    """The copy whose threads get the part of B, (N, K), that the tiled MMA expects. Raises copy.threads."""
    _, n, k = mma.tile_size_mnk
    return TiledCopy(atom, mma.get_layoutB_TV(), (n, k))


@user_facing
def make_tiled_copy_C(atom: CopyAtom, mma: Multiplier) -> TiledCopy:
    """The copy of C, (M, N), whose threads have what the tiled MMA gives them. Raises copy.threads."""
    m, n, _ = mma.tile_size_mnk
    return TiledCopy(atom, mma.get_layoutC_TV(), (m, n))


@user_facing
def make_tiled_copy_C_atom(atom: CopyAtom, mma: Multiplier) -> TiledCopy:
    """The smallest copy of C, (M, N), whose threads have what the tiled MMA gives them: of `atom.values` values each.

    Its tiler picks those elements out of the MMA's tile. Raises copy.threads, and copy.tile where a thread of the MMA
    has fewer values. CuTe's make_tiled_copy_C_atom.
    """
    whole, (m, n, _) = mma.get_layoutC_TV(), mma.tile_size_mnk
    threads, values = size(whole, 0), size(whole, 1)
    if values % atom.values:
        TILE.fail(thr_layout=whole, val_layout=Layout(atom.values), covered=values, wanted=atom.values)
    own = _checked(composition(whole, Layout((threads, atom.values))))
    tiler = tuple(_checked(filter(composition(Layout((m, n), steps), own))) for steps in ((1, 0), (0, 1)))
    places = left_inverse(_checked(composition(Layout((m, n)), tiler)))
    return TiledCopy(atom, _checked(composition(places, own)), tiler)


@user_facing
def make_tiled_copy_S(atom: CopyAtom, tiled: TiledCopy) -> TiledCopy:
    """The copy by another atom whose threads have what `tiled` takes from its source. Raises copy.threads."""
    return TiledCopy(atom, tiled.get_layoutS_TV(), tiled.tiler)


@user_facing
def make_tiled_copy_D(atom: CopyAtom, tiled: TiledCopy) -> TiledCopy:
    """The copy by another atom whose threads have what `tiled` puts into its destination. Raises copy.threads."""
    return TiledCopy(atom, tiled.get_layoutD_TV(), tiled.tiler)


@user_facing
@dataclass(frozen=True)
class TiledCopy:
    """`atom` over a tile of `tiler` elements. Made by `make_tiled_copy` and its like.

    `layout_tv` goes from (thread, value) to the tile's coordinate as one integer; values are those of registers.
    `tiler` has what is cut off each mode at a time: an extent, or a layout of the elements that are picked. Raises
    copy.threads where that is not a whole number of atoms.
    """

    atom: CopyAtom
    layout_tv: Layout
    tiler: tuple[int | Layout, ...]

    __repr__ = short_repr

    def __post_init__(self) -> None:
        threads, values = size(self.layout_tv, 0), size(self.layout_tv, 1)
        if threads % self.atom.threads or values % self.atom.values:
            THREADS.fail(
                threads=threads,
                values=values,
                atom=self.atom,
                atom_threads=self.atom.threads,
                atom_values=self.atom.values,
            )

    @property
    def extents(self) -> tuple[int, ...]:
        """The elements of the tile along each mode."""
        return tuple(size(mode) if isinstance(mode, Layout) else mode for mode in self.tiler)

    @property
    def size(self) -> int:
        """The threads that take part."""
        return size(self.layout_tv, 0)

    def get_slice(self, thread: Any) -> ThrCopy:
        """The part of `thread`, an integer or a builder's value: CuTe's get_slice and get_thread_slice.

        Raises copy.threads for an integer that is not one of its threads.
        """
        if isinstance(thread, int) and not 0 <= thread < self.size:
            THREADS.fail(
                threads=f"{thread} (they are 0 to {self.size - 1})",
                values=size(self.layout_tv, 1),
                atom=self.atom,
                atom_threads=self.atom.threads,
                atom_values=self.atom.values,
            )
        return ThrCopy(self, thread)

    def get_layoutS_TV(self) -> Layout:
        """(thread, value) of the source to the tile's coordinate, M fastest."""
        return self._layout_tv(self.atom.layout_src_tv)

    def get_layoutD_TV(self) -> Layout:
        """(thread, value) of the destination to the tile's coordinate, M fastest."""
        return self._layout_tv(self.atom.layout_dst_tv)

    def tidfrg_S(self, layout: Layout) -> Layout:
        """((ThrV,ThrX),(FrgV,FrgX),(RestM,RestN,...)) of a source (M,N,...): CuTe's, with all rests in one mode."""
        return self._cut(layout, self.tiler, self.atom.layout_src_tv)

    def tidfrg_D(self, layout: Layout) -> Layout:
        """((ThrV,ThrX),(FrgV,FrgX),(RestM,RestN,...)) of a destination (M,N,...)."""
        return self._cut(layout, self.tiler, self.atom.layout_dst_tv)

    def _layout_tv(self, side: Layout) -> Layout:
        threads, values, _ = self._cut(Layout(self.extents), self.extents, side).modes
        return make_layout(threads, values)

    def _cut(self, layout: Layout, tiler: tuple[int | Layout, ...], side: Layout) -> Layout:
        """The tile's threads and values as one side of the atom has them, composed with the layout."""
        tilers = (each for each in tiler if isinstance(each, Layout))
        if is_static(layout, side, self.layout_tv, self.atom.src_bits, self.atom.dst_bits, *tilers):
            return _cut_before(self, layout, tiler, side)
        return self._cut_anew(layout, tiler, side)

    def _cut_anew(self, layout: Layout, tiler: tuple[int | Layout, ...], side: Layout) -> Layout:
        reference = self.atom.layout_ref_tv
        atoms = zipped_divide(self.layout_tv, (self.atom.threads, self.atom.values))
        own, rest = composition(atoms[0], _checked(composition(right_inverse(reference), side))), atoms[1]
        tv = make_layout(*(make_layout(own[place], rest[place]) for place in (0, 1)))
        tiles = zipped_divide(layout, tiler)
        return make_layout(*composition(tiles[0], coalesce(tv, (1, (1, 1)))).modes, tiles[1])

    def retile(self, layout: Layout) -> Layout:
        """A fragment (V, RestM, RestN, ...) of the same threads as ((FrgV,FrgX),RestM,RestN,...): CuTe's retile.

        What the copy moves at once becomes the first mode, be it in one of the MMA's fragments or in several. Raises
        copy.fragment.
        """
        return _retiled(self, layout)

    def picture(self, *, source: bool = False, group: int | None = None) -> Picture:
        """Which thread writes which element of the tile, or reads it from the `source`.

        With `group` 32 by warps; modes after the first are side by side.
        """
        from nvbackend.layout.pictures.pictures import thread_values

        layout = self.get_layoutS_TV() if source else self.get_layoutD_TV()
        title = f"{'source' if source else 'destination'} of {self.atom}"
        rows, *columns = self.extents
        return thread_values(layout, (rows, math.prod(columns)), title=title, group=group)

    def _repr_svg_(self) -> str:
        return self.picture(group=WARP_SIZE if self.size > WARP_SIZE else None).svg

    def __str__(self) -> str:
        return f"{self.atom} over {self.layout_tv} of {'x'.join(map(str, self.extents))}"


@user_facing
@dataclass(frozen=True)
class ThrCopy:
    """One thread's part of a tiled copy, from `TiledCopy.get_slice(thread)`."""

    tiled_copy: TiledCopy
    thread: Any

    __repr__ = short_repr

    def partition_S(self, layout: AnyLayout) -> Partition:
        """(CPY, CPY_M, CPY_N, ...) of a source (M, N, ...): tAsA. CPY is (of one atom, atoms).

        The source of ldmatrix is the row that the thread gives the address of.
        """
        return self._partition(layout, self.tiled_copy.tidfrg_S)

    def partition_D(self, layout: AnyLayout) -> Partition:
        """(CPY, CPY_M, CPY_N, ...) of a destination (M, N, ...)."""
        return self._partition(layout, self.tiled_copy.tidfrg_D)

    def retile_S(self, layout: Layout) -> Layout:
        """As `TiledCopy.retile`: registers of an MMA as the source of this copy."""
        return self.tiled_copy.retile(layout)

    def retile_D(self, layout: Layout) -> Layout:
        """As `TiledCopy.retile`: registers of an MMA as the destination of this copy."""
        return self.tiled_copy.retile(layout)

    def _partition(self, layout: AnyLayout, cut: Callable[[Layout], Layout]) -> Partition:
        plain = layout.layout_b if isinstance(layout, ComposedLayout) else layout
        threads, values, rest = cut(plain).modes
        offset = threads(self.thread)
        kept = make_layout(values, *rest.modes)
        if isinstance(layout, ComposedLayout):
            return Partition(layout.with_layout(lambda _: kept), offset)
        return Partition(kept, offset)


@lru_cache(maxsize=_CUTS)
def _cut_before(copy: TiledCopy, layout: Layout, tiler: tuple[int | Layout, ...], side: Layout) -> Layout:
    return copy._cut_anew(layout, tiler, side)


def _checked(layout: AnyLayout) -> Layout:
    assert isinstance(layout, Layout)
    return layout


def _retiled(tiled: TiledCopy, layout: Layout) -> Layout:
    def fail(problem: str) -> NoReturn:
        FRAGMENT.fail(layout=layout, atom=tiled.atom, problem=problem)

    values = size(layout.modes[0])
    everything = size(tiled.layout_tv, 1)
    if len(layout.modes) != 1 + len(tiled.tiler):
        fail(f"it has {len(layout.modes)} modes, and one for values and {len(tiled.tiler)} for tiles are wanted")
    if everything % values and values % everything:
        fail(f"its {values} values do not divide the {everything} that a thread has of a tile")
    places = composition(right_inverse(tiled.layout_tv), Layout(tiled.extents))
    fragments = _kept_beyond(_checked(places), size(tiled.layout_tv, 0) * values)
    order = logical_product(Layout(values), _checked(right_inverse(coalesce(fragments))))
    atoms = zipped_divide(order, Layout(tiled.atom.values))
    counts = tuple(map(size, fragments.modes))
    if any(size(mode) % count for mode, count in zip(layout.modes[1:], counts, strict=True)):
        fail(f"its tiles are not a multiple of the {counts} that this copy moves at once")
    cut = zipped_divide(layout, (values, *counts))
    return make_layout(composition(cut[0], atoms), *cut[1].modes[1:])


def _kept_beyond(layout: Layout, factor: int) -> Layout:
    """Which group of `factor` indices a coordinate is in: CuTe's upcast, where modes within a group become one."""
    kept = []
    for part in layout.modes:
        flat = []
        for extent, stride in flat_modes(part):
            if stride % factor == 0:
                flat.append((extent, stride // factor))
            elif extent * stride > factor:
                flat.append((extent * stride // factor, 1))
        kept.append(from_flat(flat))
    return make_layout(*kept)
