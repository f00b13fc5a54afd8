"""Random layouts, and a second way to evaluate one: coordinates counted one by one, strides added up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from nvbackend.layout import Layout


def naive_coordinates(shape: Any) -> Iterator[Any]:
    """All coordinates of a shape, nested as it is, the first mode fastest."""
    if not isinstance(shape, tuple):
        yield from range(shape)
        return
    for reverse in itertools.product(*[list(naive_coordinates(part)) for part in reversed(shape)]):
        yield tuple(reversed(reverse))


def naive_index(coordinate: Any, stride: Any) -> int:
    """The sum of indices times strides."""
    if isinstance(stride, tuple):
        return sum(naive_index(*pair) for pair in zip(coordinate, stride, strict=True))
    return int(coordinate * stride)


def image(layout: Layout) -> list[int]:
    """The indices of all coordinates in order, without the code under test."""
    return [naive_index(coordinate, layout.stride) for coordinate in naive_coordinates(layout.shape)]


def naive_size(shape: Any) -> int:
    """How many coordinates there are."""
    return math.prod(_leaves(shape))


EXTENTS = st.sampled_from([1, 2, 2, 3, 4, 4, 6, 8])
STRIDES = st.sampled_from([0, 1, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32])


def shapes(extents: st.SearchStrategy[int] = EXTENTS, most: int = 96) -> st.SearchStrategy[Any]:
    """Nested shapes of at most `most` coordinates."""
    nested = st.recursive(extents, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4)
    return nested.filter(lambda shape: math.prod(_leaves(shape)) <= most)


@st.composite
def layouts(draw: st.DrawFn, strides: st.SearchStrategy[int] = STRIDES) -> Layout:
    """Any layout of few coordinates."""
    shape = draw(shapes())
    return Layout(shape, _filled(shape, lambda: draw(strides)))


@st.composite
def injective_layouts(draw: st.DrawFn) -> Layout:
    """Layouts that give no index twice: modes in any order, with gaps between them."""
    shape = draw(shapes())
    flat = list(_leaves(shape))
    order = draw(st.permutations(range(len(flat))))
    strides, step = [0] * len(flat), 1
    for place in order:
        step *= draw(st.sampled_from([1, 1, 1, 2, 3]))
        strides[place] = step
        step *= flat[place]
    stream = iter(strides)
    return Layout(shape, _filled(shape, lambda: next(stream)))


@st.composite
def compact_layouts(draw: st.DrawFn) -> Layout:
    """Layouts without gaps, modes in any order."""
    shape = draw(shapes())
    flat = list(_leaves(shape))
    strides, step = [0] * len(flat), 1
    for place in draw(st.permutations(range(len(flat)))):
        strides[place], step = step, step * flat[place]
    stream = iter(strides)
    return Layout(shape, _filled(shape, lambda: next(stream)))


def _leaves(shape: Any) -> Iterator[int]:
    if isinstance(shape, tuple):
        for part in shape:
            yield from _leaves(part)
    else:
        yield shape


def _filled(shape: Any, number: Any) -> Any:
    return tuple(_filled(part, number) for part in shape) if isinstance(shape, tuple) else number()
