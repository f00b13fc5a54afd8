"""Coordinates of tensors: cut as tensors are, compared with bounds, and checked where they are constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.values import Operand, Value, as_index, as_value
from nvbackend.diagnostics import Rule, run_callback, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import s32
from nvbackend.layout import AnyLayout, IntTuple, Layout, cosize
from nvbackend.layout.algebra.inttuple import added, compact, extents, is_outside, leaves, modes, nested_as, text
from nvbackend.tiled import Partition
from nvbackend.tiled.vectorize import multiple

OUTSIDE = Rule(
    id="tensor.coordinate",
    message="coordinate {coordinate} is outside of the shape {shape}",
    fix="use indices within the shape, each mode from 0; or make the tensor with the shape of what there is",
    why="Another element lies there, or other memory.",
    reference="CUTLASS documentation, CuTe layouts (coordinates)",
)


BELOW = Rule(
    id="tensor.below",
    message="below(...) gives {given} bound(s), and the coordinates have {rank} dimension(s)",
    fix="give a bound for each dimension, None for one without",
    why="What lies past the end of the dimensions left out would be read or written.",
    reference="CUTLASS include/cute/algorithm/copy.hpp (copy_if)",
)

OPEN = Rule(
    id="tensor.open-coordinate",
    message="coordinate {coordinate} leaves a mode of the shape {shape} open, so it is of several elements",
    fix="give an index for every mode",
    why="A store or a check of bounds is for a single element, which has a single place.",
    reference="CUTLASS include/cute/algorithm/copy.hpp (copy_if)",
)

Cut: TypeAlias = "Callable[[AnyLayout], Partition]"
"""What cuts a thread's part out of a layout, such as `ThrCopy.partition_S` and `ThrMMA.partition_A`."""


@user_facing
class Coordinates(KnownAttributes):
    """The coordinates of a tensor, cut as tensors are: CuTe's identity tensor. Made by `k.identity_tensor`.

    `coordinates[i, j]` is a tuple of an index for each dimension; with `_`, the coordinates of the modes left open.
    """

    def __init__(self, k: FunctionBuilder, parts: tuple[Partition, ...], at: tuple[Operand, ...]) -> None:
        self._k = k
        self._parts = parts
        self._at = at

    @property
    def shape(self) -> IntTuple:
        """The extents."""
        return self._parts[0].shape if self._parts else ()

    def partition(self, cut: Cut) -> Coordinates:
        """The part that `cut` selects, like `Tensor.partition`."""
        parts = []
        for part in self._parts:
            own = run_callback("Coordinates.partition", cut, part.layout, gives=(Partition,))
            parts.append(Partition(own.layout, added(part.offset, own.offset)))
        return Coordinates(self._k, tuple(parts), self._at)

    def __getitem__(self, coordinate: Any) -> Any:
        check_inside(coordinate, self.shape)
        if is_open(coordinate):
            return self.partition(lambda layout: sliced(layout, coordinate))
        return tuple(added(part(coordinate), at) for part, at in zip(self._parts, self._at, strict=True))

    def __repr__(self) -> str:
        return f"<coordinates of shape {self.shape}>"

    def below(self, *bounds: Operand | None) -> Inside:
        """The elements whose every index is below its bound (None: no bound), as `where` of `k.copy`.

        Raises tensor.below for a bound too few or too many.
        """
        if len(bounds) != len(self._parts):
            BELOW.fail(given=len(bounds), rank=len(self._parts))
        return Inside(self, bounds)

    __iter__ = None


@user_facing
@dataclass(frozen=True)
class Inside(KnownAttributes):
    """Which elements of a copy are inside: those whose `coordinates` are below `bounds`."""

    coordinates: Coordinates
    bounds: tuple[Operand | None, ...]

    def partition(self, cut: Cut) -> Inside:
        """What is inside, of the part that `cut` gives of the coordinates."""
        return Inside(self.coordinates.partition(cut), self.bounds)

    def holds(self, coordinate: Any) -> Value | None:
        """Whether an element is inside, as a predicate; None where nothing bounds it.

        Raises tensor.coordinate outside of the shape, tensor.open-coordinate where a mode has no index.
        """
        check_closed(coordinate, self.coordinates.shape)
        inside: Value | None = None
        for index, bound in zip(self.coordinates[coordinate], self.bounds, strict=True):
            if bound is not None:
                k = self.coordinates._k
                number = as_value(k.core, index, s32 if isinstance(index, int) else None)
                below = number < as_value(k.core, bound, number.type)
                inside = below if inside is None else inside & below
        return inside

    def _torn(self) -> tuple[int, int, int] | None:
        """A dimension, how many of its elements an access has, and what its ends are known to be multiples of.

        None where no access can begin inside and end outside.
        """
        k = self.coordinates._k
        for place, (part, at, bound) in enumerate(
            zip(self.coordinates._parts, self.coordinates._at, self.bounds, strict=True)
        ):
            span = cosize(part.plain[0, 0])
            known = math.gcd(
                multiple(part.layout),
                divisor(k, part.offset),
                divisor(k, at),
                0 if bound is None else divisor(k, bound),
            )
            if bound is not None and known % span:
                return place, span, known
        return None


def make_identity_tensor(k: FunctionBuilder, shape: IntTuple, at: Sequence[Operand] | None) -> Coordinates:
    """The coordinates of a tile of `shape`: see `k.identity_tensor`. CuTe's make_identity_tensor."""
    whole = modes(extents(shape, "a shape", least=1))
    parts = []
    for place in range(len(whole)):
        strides = [
            compact(mode) if own == place else nested_as(mode, [0] * len(list(leaves(mode))))
            for own, mode in enumerate(whole)
        ]
        parts.append(Partition(Layout(tuple(whole), tuple(strides))))
    first = (0,) * len(whole) if at is None else tuple(at)
    if len(first) != len(whole):
        OUTSIDE.fail(coordinate=str(first), shape=str(tuple(whole)))
    return Coordinates(
        k,
        tuple(parts),
        tuple(coordinate if type(coordinate) is int else as_index(k.core, coordinate) for coordinate in first),
    )


def check_inside(coordinate: Any, shape: IntTuple) -> None:
    """Raises tensor.coordinate where an index that is known is not one of its mode."""
    place = coordinate[0] if isinstance(coordinate, tuple) and len(coordinate) == 1 else coordinate
    if is_outside(place, shape):
        OUTSIDE.fail(coordinate=text(place), shape=text(shape))


def check_closed(coordinate: Any, shape: IntTuple) -> None:
    """Raises tensor.open-coordinate where a mode has no index."""
    if is_open(coordinate):
        OPEN.fail(coordinate=text(coordinate), shape=text(shape))


def sliced(layout: AnyLayout, coordinate: Any) -> Partition:
    """The sub-layout at a coordinate with open modes, and where it begins."""
    cut = Partition(layout)(coordinate)
    assert isinstance(cut, Partition)
    return cut


def is_open(coordinate: Any) -> bool:
    """Whether a coordinate leaves a mode open."""
    return any(map(is_open, coordinate)) if isinstance(coordinate, tuple) else coordinate is None


def divisor(k: FunctionBuilder, number: Any) -> int:
    """A number of which a value certainly is a multiple, 0 for the number 0."""
    if isinstance(number, int):
        return number
    return k.core.places.multiples.divisor(as_value(k.core, number).ir)
