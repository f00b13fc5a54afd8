"""What every operation promises, by brute force on random layouts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import assume, event
from hypothesis import strategies as st

from nvbackend import DiagnosticError
from nvbackend.layout import (
    Layout,
    blocked_product,
    coalesce,
    complement,
    composition,
    cosize,
    depth,
    downcast,
    filter,  # noqa: A004
    flat_divide,
    flat_product,
    flatten,
    left_inverse,
    logical_divide,
    logical_product,
    make_ordered_layout,
    parse,
    raked_product,
    rank,
    right_inverse,
    size,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    upcast,
    zipped_divide,
    zipped_product,
)
from tests.layout.random_layouts import (
    compact_layouts,
    image,
    injective_layouts,
    layouts,
    naive_coordinates,
    naive_index,
    naive_size,
)
from tests.support.examples import on_examples


def beyond(layout: Layout, index: int) -> int:
    """The index of an integer coordinate, which goes on in the last mode: a second transcription."""
    found, modes = 0, [(int(e), int(s)) for e, s in zip(*map(_flat, (layout.shape, layout.stride)), strict=True)]
    for extent, stride in modes[:-1]:
        found, index = found + index % extent * stride, index // extent
    return found + index * modes[-1][1] if modes else 0


def _flat(given: Any) -> list[int]:
    return [number for part in given for number in _flat(part)] if isinstance(given, tuple) else [given]


def refines(fine: Any, coarse: Any) -> bool:
    """Whether `fine` has the modes of `coarse`, each of them perhaps in parts."""
    if isinstance(coarse, tuple):
        return isinstance(fine, tuple) and len(fine) == len(coarse) and all(map(refines, fine, coarse))
    return naive_size(fine) == coarse


def attempt(operation: Callable[..., Any], *arguments: Any) -> Any:
    """What the operation returns; the example ends where a rule refuses it, which costs hypothesis no retries."""
    try:
        return operation(*arguments)
    except DiagnosticError as refused:
        event(refused.diagnostics[0].rule_id)
        return None


@on_examples(40, 60, layouts())
def test_a_layout_adds_up_its_strides(layout: Layout) -> None:
    coordinates = list(naive_coordinates(layout.shape))
    expected = [naive_index(coordinate, layout.stride) for coordinate in coordinates]
    assert [layout(coordinate) for coordinate in coordinates] == expected
    assert [layout(index) for index in range(len(expected))] == expected
    assert layout.offsets() == expected
    assert size(layout) == len(expected)
    assert cosize(layout) == max(expected) + 1
    assert rank(layout) == (len(layout.shape) if isinstance(layout.shape, tuple) else 1)


@on_examples(40, 60, layouts(), st.integers(0, 400))
def test_an_index_past_the_end_goes_on_in_the_last_mode(layout: Layout, index: int) -> None:
    assert layout(index) == beyond(layout, index)


@on_examples(40, 60, layouts())
def test_text_and_back(layout: Layout) -> None:
    assert parse(str(layout)) == layout
    assert parse(str(layout).replace("_", "")) == layout


@on_examples(40, 60, layouts())
def test_coalesce_keeps_the_function_and_no_mode_could_go(layout: Layout) -> None:
    result = coalesce(layout)
    assert image(result) == image(layout)
    assert depth(result) <= 1
    flat = list(zip(_flat(result.shape), _flat(result.stride), strict=True))
    assert all(extent != 1 for extent, _ in flat) or len(flat) == 1
    assert all(a * d != e for (a, d), (_, e) in itertools.pairwise(flat))


@on_examples(40, 60, layouts())
def test_coalesce_by_mode_keeps_the_modes(layout: Layout) -> None:
    assume(isinstance(layout.shape, tuple))
    result = coalesce(layout, (1,) * rank(layout))
    assert [image(mode) for mode in result.modes] == [image(mode) for mode in layout.modes]
    assert depth(result) <= 2


@on_examples(40, 60, layouts())
def test_flatten_and_filter(layout: Layout) -> None:
    assert image(flatten(layout)) == image(layout)
    assert depth(flatten(layout)) <= 1
    filtered = filter(layout)
    assert set(image(filtered)) == set(image(layout))
    assert 0 not in _flat(filtered.stride) or filtered == Layout(1, 0)


@on_examples(80, 150, layouts(), layouts())
def test_composition_is_one_after_the_other(left: Layout, right: Layout) -> None:
    result = attempt(composition, left, right)
    if result is None:
        return
    assert refines(result.shape, right.shape)
    assert image(result) == [beyond(left, index) for index in image(right)]


@st.composite
def halved(draw: st.DrawFn) -> tuple[int, ...]:
    """A shape of 64 coordinates in powers of two."""
    cuts = sorted(draw(st.sets(st.integers(1, 5))))
    return tuple(2 ** (after - before) for before, after in itertools.pairwise([0, *cuts, 6]))


@on_examples(40, 60, halved(), halved(), st.data())
def test_composition_of_powers_of_two_is_never_refused(a: tuple[int, ...], b: tuple[int, ...], data: Any) -> None:
    left = make_ordered_layout(a, tuple(data.draw(st.permutations(range(len(a))))))
    right = make_ordered_layout(b, tuple(data.draw(st.permutations(range(len(b))))))
    assert image(composition(left, right)) == [image(left)[index] for index in image(right)]


@on_examples(40, 60, injective_layouts(), st.sampled_from([None, 1, 7, 24, 100, 256]))
def test_complement_is_apart_ordered_and_fills(layout: Layout, cotarget: int | None) -> None:
    result = complement(layout, cotarget)
    own, rest = image(filter(layout)), image(result)
    assert all(a < b for a, b in itertools.pairwise(rest))
    sums = [a + b for a in own for b in rest]
    assert len(set(sums)) == len(sums)
    assert len(sums) >= (cosize(layout) if cotarget is None else cotarget)


@on_examples(40, 60, layouts())
def test_complement_of_anything_is_right_or_refused(layout: Layout) -> None:
    result = attempt(complement, layout, 64)
    if result is None:
        return
    own, rest = set(image(layout)), image(result)
    sums = [a + b for a in own for b in rest]
    assert len(set(sums)) == len(sums)
    assert all(a < b for a, b in itertools.pairwise(rest))


@on_examples(40, 60, layouts())
def test_right_inverse_finds_coordinates(layout: Layout) -> None:
    result = right_inverse(layout)
    found = image(result)
    assert [image(layout)[coordinate] for coordinate in found] == list(range(len(found)))


@on_examples(40, 60, compact_layouts())
def test_right_inverse_of_a_compact_layout_is_whole(layout: Layout) -> None:
    assert naive_size(right_inverse(layout).shape) == naive_size(layout.shape)


@on_examples(40, 60, st.one_of(layouts(), injective_layouts()))
def test_left_inverse_undoes(layout: Layout) -> None:
    result = attempt(left_inverse, layout)
    if result is None:
        return
    assert [beyond(result, index) for index in image(layout)] == list(range(naive_size(layout.shape)))


@on_examples(40, 60, compact_layouts())
def test_left_inverse_of_a_compact_layout_is_never_refused(layout: Layout) -> None:
    assert [beyond(left_inverse(layout), index) for index in image(layout)] == list(range(naive_size(layout.shape)))


@on_examples(80, 150, layouts(), injective_layouts())
def test_logical_divide_keeps_every_element(layout: Layout, tiler: Layout) -> None:
    assume(naive_size(layout.shape) % naive_size(tiler.shape) == 0)
    result = attempt(logical_divide, layout, tiler)
    if result is None:
        return
    tile, rest = result.modes
    assert refines(tile.shape, tiler.shape)
    assert image(tile) == [beyond(layout, index) for index in image(tiler)]
    picked = complement(tiler, size(layout))
    assert image(rest) == [beyond(layout, index) for index in image(picked)]
    if naive_size(result.shape) == naive_size(layout.shape) and cosize(tiler) <= size(layout):
        assert sorted(image(result)) == sorted(image(layout))


@st.composite
def matrices(draw: st.DrawFn) -> Layout:
    extents = tuple(draw(st.sampled_from([4, 6, 8, 12])) for _ in range(2))
    return make_ordered_layout(extents, draw(st.sampled_from([(0, 1), (1, 0)])))


@on_examples(40, 60, matrices(), st.data())
def test_the_divides_arrange_the_same_modes(layout: Layout, data: st.DataObject) -> None:
    tiler = tuple(data.draw(st.sampled_from([d for d in (1, 2, 3, 4, 6) if e % d == 0])) for e in _flat(layout.shape))
    (m, n), (tile_m, tile_n) = _flat(layout.shape), tiler
    counts = (m // tile_m, n // tile_n)
    logical, zipped = logical_divide(layout, tiler), zipped_divide(layout, tiler)
    tiled, flat = tiled_divide(layout, tiler), flat_divide(layout, tiler)
    assert (rank(zipped), rank(tiled), rank(flat)) == (2, 3, 4)
    for a, b, x, y in itertools.product(range(tile_m), range(tile_n), range(counts[0]), range(counts[1])):
        expected = naive_index((a + tile_m * x, b + tile_n * y), layout.stride)
        assert logical((a, x), (b, y)) == expected
        assert zipped((a, b), (x, y)) == expected
        assert tiled((a, b), x, y) == expected
        assert flat(a, b, x, y) == expected


@on_examples(80, 150, injective_layouts(), compact_layouts())
def test_logical_product_repeats_the_block(block: Layout, tiler: Layout) -> None:
    result = attempt(logical_product, block, tiler)
    if result is None:
        return
    inside, copies = result.modes
    assert inside == block
    assert refines(copies.shape, tiler.shape)
    free = image(complement(block, naive_size(block.shape) * cosize(tiler)))
    assert image(copies) == [free[index] for index in image(tiler)]
    assert len(set(image(result))) == naive_size(block.shape) * naive_size(tiler.shape)


@on_examples(40, 60, matrices(), matrices())
def test_blocked_and_raked_products_put_copies_where_they_say(block: Layout, tiler: Layout) -> None:
    blocked, raked = blocked_product(block, tiler), raked_product(block, tiler)
    (m, n), (copies_m, copies_n) = _flat(block.shape), _flat(tiler.shape)
    for a, b, x, y in itertools.product(range(m), range(n), range(copies_m), range(copies_n)):
        expected = naive_index((a, b), block.stride) + m * n * naive_index((x, y), tiler.stride)
        assert blocked(a + m * x, b + n * y) == expected
        assert raked(x + copies_m * a, y + copies_n * b) == expected


@on_examples(40, 60, matrices(), st.sampled_from([2, (2, 3), (4, 1)]))
def test_the_products_arrange_the_same_modes(block: Layout, tiler: Any) -> None:
    zipped, tiled, flat = zipped_product(block, tiler), tiled_product(block, tiler), flat_product(block, tiler)
    assert image(tiled) == image(flat) == image(zipped)
    assert rank(zipped) == 2


@on_examples(
    40, 60, matrices(), st.integers(1, 3), st.integers(1, 3), st.sampled_from(["left", "right", (1, 2), (2, 1)])
)
def test_tile_to_shape_walks_copies_in_its_order(block: Layout, copies_m: int, copies_n: int, order: Any) -> None:
    (m, n) = _flat(block.shape)
    result = tile_to_shape(block, (m * copies_m, n * copies_n), order)
    first_m = order in ("left", (1, 2))
    for row, column in itertools.product(range(m * copies_m), range(n * copies_n)):
        copy = row // m + column // n * copies_m if first_m else row // m * copies_n + column // n
        assert result(row, column) == naive_index((row % m, column % n), block.stride) + m * n * copy


@on_examples(80, 150, injective_layouts(), st.sampled_from([2, 3, 4, 8]))
def test_upcast_numbers_runs_of_elements(layout: Layout, factor: int) -> None:
    result = attempt(upcast, layout, factor)
    if result is None:
        return
    runs = {index // factor for index in image(layout)}
    assert set(image(result)) == runs
    if naive_size(result.shape) * factor == naive_size(layout.shape):
        assert {factor * index + part for index in image(result) for part in range(factor)} == set(image(layout))


@on_examples(40, 60, compact_layouts(), st.sampled_from([2, 4, 8]))
def test_downcast_then_upcast_is_the_layout(layout: Layout, factor: int) -> None:
    result = attempt(downcast, layout, factor)
    if result is None:
        return
    expected = {factor * index + part for index in image(layout) for part in range(factor)}
    assert set(image(result)) == expected
    assert image(upcast(result, factor)) == image(layout)
