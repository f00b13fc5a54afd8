"""A layout: a function from coordinates to indices, given by a shape and a stride of the same nesting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.layout.algebra.inttuple import (
    Coordinate,
    IntTuple,
    RunTimeExtent,
    added,
    as_extents,
    check_congruent,
    check_limits,
    compact,
    depth_of,
    extents,
    index_of,
    is_run_time,
    leaves,
    modes,
    nested_as,
    product,
    text,
    valued,
    widened,
)
from nvbackend.layout.algebra.rules import COORDINATE, EXTENT, KNOWN, LIMIT, MODE, RUN_TIME

MOST_INDICES = 1 << 22
"""How many indices are listed: shared memory has fewer bits."""


@user_facing
@dataclass(frozen=True, init=False, repr=False)
class Layout:
    """Shape:stride as in CuTe: coordinate (i, j, ...) goes to the sum of indices times strides.

    Both are integers or nested tuples of them; without `stride` the layout is compact, the first mode fastest. Equal
    layouts have equal numbers, static or dynamic. Strides and extents may be a builder's values, printed `?`: such a
    layout can be called, sliced, coalesced, divided, and composed with one of integers; what must compare its strides
    raises layout-algebra.run-time. Raises layout-algebra.extent and layout-algebra.congruent.
    CUTLASS documentation, CuTe layouts.
    """

    shape: IntTuple
    stride: IntTuple

    def __init__(self, shape: Coordinate, stride: Coordinate = None) -> None:
        shape = as_extents(extents(shape, "a shape", least=1, run_time=True))
        if stride is None:
            stride = valued(compact(shape))
        else:
            stride = extents(stride, "a stride", run_time=True)
            check_congruent(shape, stride)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    @property
    def modes(self) -> tuple[Layout, ...]:
        """The layouts of the top-level modes."""
        return tuple(
            trusted(shape, stride) for shape, stride in zip(modes(self.shape), modes(self.stride), strict=True)
        )

    def __getitem__(self, path: int | tuple[int, ...]) -> Layout:
        """The layout of a mode: `layout[0, 1]` is CuTe's `layout<0,1>(layout)`. Raises layout-algebra.mode."""
        inside = self
        for index in path if isinstance(path, tuple) else (path,):
            inner = inside.modes
            if not isinstance(index, int) or not 0 <= index < len(inner):
                MODE.fail(mode=index, layout=inside, modes=len(inner))
            inside = inner[index]
        return inside

    def __iter__(self) -> Iterator[Layout]:
        """The modes, as `modes` has them."""
        return iter(self.modes)

    def __len__(self) -> int:
        """The rank."""
        return len(modes(self.shape))

    def __call__(self, *coordinate: Coordinate) -> Any:
        """The index of a coordinate; with `_` in it, the layout of the modes that are left open.

        A coordinate is one integer for the whole shape (the first mode runs fastest), or one a mode, and so on inside.
        An integer past the end continues in the last mode, as in CuTe. Builder values may replace integers: the
        arithmetic is emitted then, with what is known already done. A slice begins at index 0: where it lies says
        `slice_and_offset`. Raises layout-algebra.coordinate.
        """
        place = coordinate[0] if len(coordinate) == 1 else coordinate
        if (static := _of_integers(place, self.shape, self.stride)) is not None:
            return static
        if _is_open(place):
            return self.slice_and_offset(*coordinate)[0]
        known: int = 0
        unknown: Any = 0
        for index, stride in _terms(place, self.shape, self.stride, place, self.shape):
            if isinstance(index, int) and isinstance(stride, int):
                known += index * int(stride)
            elif not is_zero(index) and not is_zero(stride):
                unknown = added(unknown, widened(_plain(index), self._reach()) * widened(_plain(stride), 0))
        return known if isinstance(unknown, int) else unknown + known

    def _reach(self) -> int:
        """The largest distance from index 0 that coordinates come to, run-time strides left out."""
        steps = zip(leaves(self.shape), leaves(self.stride), strict=True)
        return sum((extent - 1) * abs(stride) for extent, stride in steps if isinstance(stride, int))

    def slice_and_offset(self, *coordinate: Coordinate) -> tuple[Layout, Any]:
        """The layout of the modes given as `_`, and the index at which it begins. Raises layout-algebra.coordinate."""
        place = coordinate[0] if len(coordinate) == 1 else coordinate
        if place is None:
            return self, 0
        kept = tuple(_open_modes(place, self.shape, self.stride, place, self.shape))
        shape, stride = tuple(pair[0] for pair in kept), tuple(pair[1] for pair in kept)
        return trusted(shape, stride), self(_closed(place))

    def offsets(self) -> list[int]:
        """The indices of all coordinates, in the order of the coordinate as one integer.

        Raises layout-algebra.run-time, and layout-algebra.limit for a layout that no memory of a CTA has room for.
        """
        must_be_known(self, "the indices")
        check_count(self)
        offsets = [0]
        for extent, stride in zip(leaves(self.shape), leaves(self.stride), strict=True):
            starts = range(0, extent * stride, stride) if stride else [0] * extent
            offsets = [start + index for start in starts for index in offsets]
        return offsets

    def svg(self) -> str:
        """A picture, as an SVG document: first mode downwards, others to the right, indices in the cells.

        Raises layout-algebra.run-time.
        """
        return drawn(str(self), self.shape, self.offsets)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return f"{text(self.shape)}:{text(self.stride)}"

    def __repr__(self) -> str:
        return f"Layout({self.shape!r}, {self.stride!r})"


def trusted(shape: IntTuple, stride: IntTuple) -> Layout:
    """A layout of tuples that need no check, being made from those of other layouts."""
    layout = object.__new__(Layout)
    object.__setattr__(layout, "shape", shape)
    object.__setattr__(layout, "stride", stride)
    return layout


def joined(parts: tuple[Layout, ...] | list[Layout]) -> Layout:
    """The layout whose modes are `parts`."""
    return trusted(tuple(part.shape for part in parts), tuple(part.stride for part in parts))


def must_be_known(layout: Layout, operation: str) -> None:
    """Raises layout-algebra.run-time where a stride is not an integer."""
    if any(not isinstance(stride, int) for stride in leaves(layout.stride)):
        RUN_TIME.fail(operation=operation, layout=layout)


def is_static(*layouts: Layout) -> bool:
    """Whether all numbers are plain integers, so that layouts that are equal also print alike."""
    return all(
        type(number) is int
        for layout in layouts
        for numbers in (layout.shape, layout.stride)
        for number in leaves(numbers)
    )


def check_count(layout: Layout) -> None:
    """Raises layout-algebra.limit where all indices together are too many to be listed."""
    count = product(layout.shape)
    if count > MOST_INDICES:
        LIMIT.fail(what=f"the list of all indices of {layout}", problem=f"{count} of them", limit=MOST_INDICES)


def is_zero(number: Any) -> bool:
    """Whether it is known to be 0."""
    return isinstance(number, int) and number == 0


def _plain(number: Any) -> Any:
    return int(number) if isinstance(number, int) and not isinstance(number, RunTimeExtent) else number


def drawn(title: str, shape: IntTuple, offsets: Callable[[], list[int]]) -> str:
    """The picture of the indices of all coordinates of a shape. Raises picture.size."""
    from nvbackend.layout.drawing.svg import check_size, table

    rows = product(modes(shape)[0]) if modes(shape) else 1
    check_size(rows, product(shape) // rows)
    indices = offsets()
    return table(title, [indices[row::rows] for row in range(rows)])


def _is_open(place: Coordinate) -> bool:
    return any(map(_is_open, place)) if isinstance(place, tuple) else place is None


def _closed(place: Coordinate) -> Coordinate:
    return tuple(map(_closed, place)) if isinstance(place, tuple) else 0 if place is None else place


def _of_integers(place: Coordinate, shape: IntTuple, stride: IntTuple) -> int | None:
    """The index of a coordinate, as `_terms` has it, where all is static and right; else None."""
    if type(place) is int:
        if type(shape) is not tuple:
            return place * stride if type(stride) is int else None
        walked = _walked(place, shape, stride) if place >= 0 else None
        return None if walked is None else walked[0] + walked[1] * walked[2]
    if type(place) is not tuple or type(shape) is not tuple or len(place) != len(shape):
        return None
    index = 0
    for inner, part, step in zip(place, shape, modes(stride), strict=True):
        along = _of_integers(inner, part, step)
        if along is None:
            return None
        index += along
    return index


def _walked(rest: int, shape: tuple[IntTuple, ...], stride: IntTuple) -> tuple[int, int, int] | None:
    """The index along the modes of a shape, what is left of the coordinate past them, and the step of that."""
    index = past = 0
    for extent, step in zip(shape, modes(stride), strict=True):
        if type(extent) is tuple:
            inside = _walked(rest, extent, step)
            if inside is None:
                return None
            along, rest, last = inside
            index, past = index + along, last if extent else past
        elif type(extent) is int and type(step) is int:
            if extent != 1:
                index += rest % extent * step
                rest //= extent
            past = extent * step
        else:
            return None
    return index, rest, past


def _terms(
    place: Coordinate, shape: IntTuple, stride: IntTuple, whole: Coordinate, domain: IntTuple
) -> Iterator[tuple[Any, int]]:
    """The indices along the leaves' modes, each with its stride; modes that add nothing may be left out."""
    if isinstance(place, tuple):
        parts = _inner(place, shape, whole, domain)
        for inner, part, step in zip(place, parts, modes(stride), strict=True):
            yield from _terms(inner, part, step, whole, domain)
        return
    if not isinstance(shape, tuple):
        assert not isinstance(stride, tuple)
        yield _number(place, whole, domain), stride
        return
    rest = widened(_number(place, whole, domain), product(shape))
    flat = list(zip(leaves(shape), leaves(stride), strict=True))
    if isinstance(rest, int) and rest < 0:
        COORDINATE.fail(coordinate=text(whole), shape=text(domain), problem="a negative index has no place in a tuple")
    if is_zero(rest):
        return
    for extent, step in flat[:-1]:
        if extent != 1:
            if not is_zero(step):
                yield rest % _divisor(extent, rest), step
            rest = rest // _divisor(extent, rest)
    if flat:
        yield rest, flat[-1][1]


def _divisor(extent: int, index: Any) -> Any:
    """An extent to divide an index by, in the index's type where both are a builder's values."""
    number = valued(_plain(extent))
    return number.to(index.type) if is_run_time(number) and is_run_time(index) else number


def _open_modes(
    place: Coordinate, shape: IntTuple, stride: IntTuple, whole: Coordinate, domain: IntTuple
) -> Iterator[tuple[IntTuple, IntTuple]]:
    if place is None:
        yield shape, stride
    elif isinstance(place, tuple):
        parts = _inner(place, shape, whole, domain)
        for inner, part, step in zip(place, parts, modes(stride), strict=True):
            yield from _open_modes(inner, part, step, whole, domain)


def _inner(place: tuple[Any, ...], shape: IntTuple, whole: Coordinate, domain: IntTuple) -> tuple[IntTuple, ...]:
    if not isinstance(shape, tuple) or len(place) != len(shape):
        indices = "1 index" if len(place) == 1 else f"{len(place)} indices"
        problem = f"{indices} for the mode {text(shape)}, which has {len(modes(shape))}"
        COORDINATE.fail(coordinate=text(whole), shape=text(domain), problem=problem)
    return shape


def _number(place: Any, whole: Coordinate, domain: IntTuple) -> Any:
    """An index: an integer, or whatever computes like one (a builder's value)."""
    number = index_of(place)
    if number is not None:
        return int(number)
    if not is_run_time(place):
        COORDINATE.fail(coordinate=text(whole), shape=text(domain), problem=f"{place!r} is not an index")
    return place


@user_facing
def make_layout(*parts: Any, stride: Coordinate = None) -> Layout:
    """CuTe's make_layout: of layouts, a layout with these as its modes; of a shape (and a stride), `Layout`.

    `make_layout((8, 4))` is compact; `make_layout((8, 4), (4, 1))` and `make_layout((8, 4), stride=(4, 1))` say the
    stride. Raises what `Layout` raises.
    """
    if parts and stride is None and all(isinstance(part, Layout) for part in parts):
        check_limits(tuple(part.shape for part in parts), "a shape")
        return joined(parts)
    if len(parts) == 1:
        return Layout(parts[0], stride)
    if len(parts) == 2 and stride is None:
        return Layout(parts[0], parts[1])
    EXTENT.fail(given=parts, what="make_layout", advice=KNOWN)


@user_facing
def make_ordered_layout(shape: IntTuple, order: IntTuple) -> Layout:
    """The compact layout whose modes follow each other in memory by rising `order`, which is nested as the shape is.

    Raises layout-algebra.extent and layout-algebra.congruent.
    """
    shape, order = extents(shape, "a shape", least=1), extents(order, "an order")
    check_congruent(shape, order)
    flat, ranks = list(leaves(shape)), list(leaves(order))
    strides, step = [0] * len(flat), 1
    for index in sorted(range(len(flat)), key=lambda index: ranks[index]):
        if flat[index] != 1:
            strides[index], step = step, step * flat[index]
    return trusted(shape, nested_as(shape, strides))


def _domain(a: Any, path: tuple[int, ...]) -> IntTuple:
    """The shape of a layout, a composed layout or a shape, or of the mode of it that `path` names."""
    shape: IntTuple = a.shape if hasattr(a, "shape") else extents(a, "a shape", least=1)
    for index in path:
        inner = modes(shape)
        if not 0 <= index < len(inner):
            MODE.fail(mode=index, layout=text(shape), modes=len(inner))
        shape = inner[index]
    return shape


@user_facing
def size(a: Any, *mode: int) -> int:
    """The number of coordinates of a layout or shape, or of a mode: `size(layout, 0)` is CuTe's `size<0>(layout)`.

    Raises layout-algebra.mode.
    """
    return product(_domain(a, mode))


@user_facing
def rank(a: Any, *mode: int) -> int:
    """The number of modes of a layout or shape, or of a mode; 1 for an integer. Raises layout-algebra.mode."""
    return len(modes(_domain(a, mode)))


@user_facing
def depth(a: Any, *mode: int) -> int:
    """How deep a layout or shape is nested, 0 for an integer. Raises layout-algebra.mode."""
    return depth_of(_domain(a, mode))
