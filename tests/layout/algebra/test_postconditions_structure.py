"""What operations on modes promise, and those on swizzled layouts: by brute force on random layouts."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nvbackend.layout
from nvbackend.layout import (
    ComposedLayout,
    Layout,
    SmemPtr,
    Swizzle,
    _,
    bank_conflicts,
    coalesce,
    composition,
    cosize,
    depth,
    filter_zeros,
    flat_divide,
    flat_product,
    flatten,
    group,
    logical_divide,
    make_layout,
    make_ordered_layout,
    parse,
    rank,
    recast_layout,
    replace,
    size,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from tests.layout.algebra.test_postconditions import attempt
from tests.layout.random_layouts import (
    compact_layouts,
    image,
    layouts,
    naive_coordinates,
    naive_index,
    naive_size,
)

thorough = settings(max_examples=60, deadline=None)


def naive_depth(shape: Any) -> int:
    return 1 + max(map(naive_depth, shape)) if isinstance(shape, tuple) else 0


def nested(layout: Layout) -> bool:
    return isinstance(layout.shape, tuple)


def sums(parts: list[Layout]) -> list[int]:
    """The indices of modes side by side, the first fastest: all sums of theirs."""
    return [sum(reversed(each)) for each in itertools.product(*(image(part) for part in reversed(parts)))]


@thorough
@given(layouts(), st.data())
def test_sizes_of_modes(layout: Layout, data: st.DataObject) -> None:
    assert depth(layout) == naive_depth(layout.shape)
    shape, path = layout.shape, []
    while isinstance(shape, tuple):
        path.append(data.draw(st.integers(0, len(shape) - 1)))
        shape = shape[path[-1]]
        found = layout[tuple(path)]
        assert (found.shape, size(layout, *path)) == (shape, naive_size(shape))
        assert rank(layout, *path) == (len(shape) if isinstance(shape, tuple) else 1)
        assert depth(layout, *path) == naive_depth(shape)
        assert cosize(found) == 1 + max(image(found))


@thorough
@given(st.lists(layouts(), min_size=1, max_size=3))
def test_modes_side_by_side(parts: list[Layout]) -> None:
    assume(naive_size(tuple(part.shape for part in parts)) <= 4096)
    joined = make_layout(*parts)
    assert list(joined) == list(joined.modes) == [joined[place] for place in range(len(joined))] == parts
    assert image(joined) == sums(parts)


@thorough
@given(compact_layouts(), st.data())
def test_an_ordered_layout_goes_by_its_order(like: Layout, data: st.DataObject) -> None:
    """Stepping along the modes in order passes all indices, one after the other."""
    flat = flatten(like)
    shape = flat.shape if isinstance(flat.shape, tuple) else (flat.shape,)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    result = make_ordered_layout(shape, order)
    places = sorted(range(len(shape)), key=lambda place: order[place])
    walked = [
        naive_index(dict_to_tuple(dict(zip(places, reversed(reverse), strict=True))), result.stride)
        for reverse in itertools.product(*(range(shape[place]) for place in reversed(places)))
    ]
    assert walked == list(range(naive_size(shape)))


def dict_to_tuple(numbers: dict[int, int]) -> tuple[int, ...]:
    return tuple(numbers[place] for place in sorted(numbers))


@thorough
@given(layouts(), st.data())
def test_modes_grouped_and_replaced(layout: Layout, data: st.DataObject) -> None:
    assume(nested(layout))
    begin = data.draw(st.integers(0, rank(layout) - 1))
    end = data.draw(st.integers(begin + 1, rank(layout)))
    result = group(layout, begin, end)
    assert image(result) == image(layout)
    assert result.modes[begin].modes == layout.modes[begin:end]
    assert rank(result) == rank(layout) - (end - begin) + 1
    other = data.draw(layouts())
    assert replace(layout, begin, other).modes == (*layout.modes[:begin], other, *layout.modes[begin + 1 :])


@thorough
@given(layouts())
def test_without_zeros_each_index_is_still_there(layout: Layout) -> None:
    result = filter_zeros(layout)
    assert set(image(result)) == set(image(layout))
    assert naive_depth(result.shape) == naive_depth(layout.shape)
    flat = flatten(result)
    pairs = [each if isinstance(each, tuple) else (each,) for each in (flat.shape, flat.stride)]
    assert all(extent == 1 or stride != 0 for extent, stride in zip(*pairs, strict=True))


@thorough
@given(layouts(), st.data())
def test_a_slice_is_what_the_open_modes_have(layout: Layout, data: st.DataObject) -> None:
    """Every leaf, or a whole mode, is open or has an index."""

    def drawn(shape: Any) -> Any:
        if data.draw(st.booleans()):
            return None
        if isinstance(shape, tuple) and data.draw(st.booleans()):
            return tuple(map(drawn, shape))
        return data.draw(st.integers(0, naive_size(shape) - 1))

    assume(nested(layout))
    place = tuple(map(drawn, layout.shape))
    kept, offset = layout.slice_and_offset(place)

    def matches(coordinate: Any, wanted: Any, shape: Any) -> bool:
        if wanted is None:
            return True
        if isinstance(wanted, tuple):
            return all(map(matches, coordinate, wanted, shape))
        return coordinate == list(naive_coordinates(shape))[wanted]

    expected = [
        naive_index(coordinate, layout.stride)
        for coordinate in naive_coordinates(layout.shape)
        if matches(coordinate, place, layout.shape)
    ]
    assert [offset + index for index in image(kept)] == expected
    assert layout(place) == (kept if kept.shape != () else offset)
    assert layout(_) == layout


def divisors(extent: int) -> list[int]:
    return [each for each in range(1, extent + 1) if extent % each == 0]


@st.composite
def matrices(draw: st.DrawFn) -> Layout:
    """Two modes, compact or with gaps."""
    extents = tuple(draw(st.sampled_from([4, 6, 8, 12])) for _ in range(2))
    pad = draw(st.sampled_from([0, 4]))
    return Layout(extents, draw(st.sampled_from([(1, extents[0] + pad), (extents[1] + pad, 1)])))


@thorough
@given(matrices(), st.data())
def test_tilers_of_layouts(layout: Layout, data: st.DataObject) -> None:
    """A tiler of n:s takes every s-th element along a mode, composed and divided."""
    tiler = []
    for extent in layout.shape:
        count = data.draw(st.sampled_from(divisors(extent)))
        tiler.append(Layout(count, data.draw(st.sampled_from(divisors(extent // count)))))
    steps = [(int(one.shape), int(one.stride)) for one in tiler]
    picked = composition(layout, tuple(tiler))
    logical, zipped = logical_divide(layout, tuple(tiler)), zipped_divide(layout, tuple(tiler))
    tiled, flat = tiled_divide(layout, tuple(tiler)), flat_divide(layout, tuple(tiler))
    (m, step_m), (n, step_n) = steps
    left = [[start for start in range(e) if start % (c * s) < s] for e, (c, s) in zip(layout.shape, steps, strict=True)]
    for a, b in itertools.product(range(m), range(n)):
        assert picked(a, b) == naive_index((a * step_m, b * step_n), layout.stride)
        for x, y in itertools.product(range(len(left[0])), range(len(left[1]))):
            expected = naive_index((a * step_m + left[0][x], b * step_n + left[1][y]), layout.stride)
            assert logical((a, x), (b, y)) == zipped((a, b), (x, y)) == expected
            assert tiled((a, b), x, y) == flat(a, b, x, y) == expected
    assert composition(layout, (tiler[0], _)) == make_layout(composition(layout[0], tiler[0]), layout[1])


@thorough
@given(matrices(), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 3]))
def test_products_of_modes(block: Layout, copies_m: int, copies_n: int) -> None:
    """Along each mode by itself, copies at the places that the mode leaves free."""

    def free(mode: Layout, copy: int) -> int:
        inside, whole = copy % mode.stride, copy // mode.stride
        return inside + whole * mode.shape * mode.stride

    each = (copies_m, copies_n)
    made = [attempt(make, block, each) for make in (zipped_product, tiled_product, flat_product)]
    if None in made:
        return
    zipped, tiled, flat = made
    for a, b in itertools.product(*map(range, block.shape)):
        for x, y in itertools.product(range(copies_m), range(copies_n)):
            wanted = naive_index((a, b), block.stride) + free(block[0], x) + free(block[1], y)
            assert zipped((a, b), (x, y)) == tiled((a, b), x, y) == flat(a, b, x, y) == wanted


SWIZZLES = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-3, 3)).filter(lambda s: abs(s[2]) >= s[0])


def swapped(index: int, numbers: tuple[int, int, int]) -> int:
    """The swizzle of an index, bit by bit."""
    bits, base, shift = numbers
    found = index
    for bit in range(base, base + bits):
        upper, lower = bit + abs(shift), bit
        source, target = (upper, lower) if shift > 0 else (lower, upper)
        found ^= (index >> source & 1) << target
    return found


@settings(max_examples=120, deadline=None)
@given(SWIZZLES, compact_layouts(), compact_layouts(), st.integers(0, 64))
def test_swizzles_on_either_side(numbers: tuple[int, int, int], one: Layout, other: Layout, offset: int) -> None:
    swizzle = Swizzle(*numbers)
    behind = composition(swizzle, one)
    assert behind.offsets() == [swapped(index, numbers) for index in image(one)]
    through = attempt(composition, one, swizzle)
    if through is not None:
        wanted = [index for index in range(naive_size(one.shape)) if swapped(index, numbers) < naive_size(one.shape)]
        assert [through(index) for index in wanted] == [image(one)[swapped(index, numbers)] for index in wanted]
    inner = attempt(composition, ComposedLayout(swizzle, offset, one), other)
    if inner is not None and cosize(other) <= naive_size(one.shape):
        assert inner.offsets() == [swapped(offset + image(one)[index], numbers) for index in image(other)]
    assert parse(str(ComposedLayout(swizzle, offset, one))) == ComposedLayout(swizzle, offset, one)


@thorough
@given(SWIZZLES, matrices(), st.data())
def test_a_slice_of_a_swizzled_layout(numbers: tuple[int, int, int], layout: Layout, data: st.DataObject) -> None:
    """The elements are where they are in the whole, from any offset on."""
    composed = ComposedLayout(Swizzle(*numbers), data.draw(st.integers(0, 32)), layout)
    row = data.draw(st.integers(0, layout.shape[0] - 1))
    part = composed(row, _)
    assert [part(column) for column in range(layout.shape[1])] == [
        composed(row, column) for column in range(layout.shape[1])
    ]
    assert coalesce(composed, (1, 1)).offsets() == flatten(composed).offsets() == composed.offsets()


@thorough
@given(st.sampled_from([8, 16, 32]), st.sampled_from([8, 16, 32, 64]), matrices())
def test_elements_of_another_width_are_in_the_same_bytes(old: int, new: int, layout: Layout) -> None:
    result = attempt(recast_layout, layout, old, new)
    if result is None:
        return
    before = {index * old // 8 + byte for index in image(layout) for byte in range(old // 8)}
    assert {index * new // 8 + byte for index in image(result) for byte in range(new // 8)} == before


@thorough
@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 3))
def test_tiles_of_three_modes(m: int, n: int, stages: int) -> None:
    """Inside each copy the block, copies one after the other, the first mode first, modes that it has not behind."""
    block = make_ordered_layout((4, 6), (1, 0))
    result = tile_to_shape(ComposedLayout(Swizzle(1, 1, 2), SmemPtr(8), block), (4 * m, 6 * n, stages))
    for row, column, stage in itertools.product(range(4 * m), range(6 * n), range(stages)):
        copy = row // 4 + m * (column // 6) + m * n * stage
        assert result.layout_b(row, column, stage) == naive_index((row % 4, column % 6), block.stride) + 24 * copy


@settings(max_examples=120, deadline=None)
@given(st.sampled_from([(32,), (8, 4), (4, 8), (2, 4, 4), (16, 2), (2, 2, 8)]), st.data(), st.sampled_from([4, 8, 16]))
def test_wavefronts_are_the_most_words_of_a_bank(shape: tuple[int, ...], data: st.DataObject, access: int) -> None:
    """Of the threads that are served together: all for 4 bytes, 16 for 8, 8 for 16."""
    words = access // 4
    steps = st.sampled_from([0, 1, 2, 3, 4, 8, 16, 17, 32, 33, 64])
    spread = Layout(shape, tuple(words * data.draw(steps) for __ in shape))
    found = bank_conflicts(spread, 32, access)
    together, wanted = 32 // words, 0
    for first in range(0, 32, together):
        banks: dict[int, set[int]] = {}
        for index in image(spread)[first : first + together]:
            for word in range(index, index + words):
                banks.setdefault(word % 32, set()).add(word)
        wanted += max(map(len, banks.values()))
    assert found.wavefronts == wanted


MADE_OF_CASES = {
    "FORMS": "tests/layout/descriptors/test_descriptor.py, form by form",
    "desc_layout": "test_descriptor.py: back from every descriptor",
    "gmma_atom": "test_swizzle.py: every atom at every width",
    "ldmatrix_conflicts": "test_banks.py",
    "make_gmma_desc": "test_descriptor.py: every form, width and shape",
    "make_umma_desc": "test_descriptor.py: every form, width and shape",
    "smem_desc": "test_descriptor_iterator.py",
    "check_tile": "test_tile_atoms.py: every atom and width",
}
"""Public names whose domain is a table, that is gone through whole elsewhere; no random layouts of them."""


def _gives_examples(decorator: ast.expr) -> bool:
    return any(name in ast.unparse(decorator) for name in ("given", "on_examples"))


def test_every_operation_has_a_property() -> None:
    """Each public function is called in a test that hypothesis gives random layouts to."""
    called: set[str] = set()
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(map(_gives_examples, node.decorator_list)):
                called |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    public = {name for name in nvbackend.layout.__all__ if name.islower() and callable(getattr(nvbackend.layout, name))}
    assert public - called - set(MADE_OF_CASES) == set()
