"""Coordinates of tensors: those that are known while the kernel is being built lie in the shape."""

from __future__ import annotations

from typing import Any

from nvbackend.diagnostics import Rule
from nvbackend.layout import IntTuple
from nvbackend.layout.algebra.inttuple import is_outside, text

OUTSIDE = Rule(
    id="tensor.coordinate",
    message="coordinate {coordinate} is outside of the shape {shape}",
    fix="use indices within the shape, each mode from 0; or make the tensor with the shape of what there is",
    why="Another element lies there, or other memory.",
    reference="CUTLASS documentation, CuTe layouts (coordinates)",
)


def check_inside(coordinate: Any, shape: IntTuple) -> None:
    """Raises tensor.coordinate where an index that is known is not one of its mode."""
    place = coordinate[0] if isinstance(coordinate, tuple) and len(coordinate) == 1 else coordinate
    if is_outside(place, shape):
        OUTSIDE.fail(coordinate=text(place), shape=text(shape))
