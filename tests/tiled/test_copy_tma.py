"""TMA boxes of shared layouts: what arrives where, by a second account of what TMA does."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend import DiagnosticError, Major, SmemLayout, SwizzleMode, f16, f32, u4, u8
from nvbackend.layout import (
    ComposedLayout,
    Layout,
    SmemPtr,
    Swizzle,
    gmma_atom,
    make_ordered_layout,
    size,
    tile_to_shape,
)
from nvbackend.layout.algebra.inttuple import Dynamic
from nvbackend.tiled import TmaBox, make_tma_copy, tma_partition
from tests.support.said import said

GLOBAL = {Major.K: Layout((1024, 512), (512, 1)), Major.MN: Layout((1024, 512), (1, 1024))}


def arrived(copy, boxes):
    """Where TMA puts each element of the tile: rows of the box one after another, then the address's bits exchanged.

    PTX ISA 5.5.4 and 5.5.7: chunks of 16 bytes change places by the 128-byte line, modulo 2, 4 or 8, that they are in.
    """
    bits, chunks = copy.element.bits, {0: 1, 32: 2, 64: 4, 128: 8}[copy.swizzle]
    found = {}
    for box in boxes:
        inner_first = [range(copy.box[mode]) for mode in copy.order]
        for number, reverse in enumerate(itertools.product(*reversed(inner_first))):
            place = list(box.coordinates)
            for mode, index in zip(copy.order, reversed(reverse), strict=True):
                place[mode] += index
            byte, rest = divmod((box.offset + number) * bits, 8)
            byte ^= byte // 128 % chunks * 16
            assert tuple(place) not in found
            found[tuple(place)] = (byte * 8 + rest) // bits
    return found


def wanted(layout):
    shape = [range(size(mode)) for mode in (getattr(layout, "layout_b", layout)).modes]
    return {place: layout(*place) for place in itertools.product(*shape)}


TILES = [
    (major, mode, element, shape, order)
    for major in Major
    for mode in SwizzleMode
    for element in (f16, f32, u8)
    for shape in ((128, 64), (64, 128))
    for order in ("left", (2, 1))
    if (element is f16 or major is Major.K) and shape[major is Major.K] * element.bits // 8 >= mode.bytes
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("major", "mode", "element", "shape", "order"), TILES[::5])
def test_boxes_fill_the_canonical_layouts(major, mode, element, shape, order):
    layout = tile_to_shape(gmma_atom(major, mode, element), shape, order)
    copy = make_tma_copy(element, GLOBAL[major], layout)
    assert arrived(copy, copy.boxes()) == wanted(layout)
    assert copy.bytes == shape[0] * shape[1] * element.bits // 8


@pytest.mark.parametrize("major", Major)
@pytest.mark.parametrize("mode", SwizzleMode)
def test_the_boxes_of_whole_panels(major, mode):
    """Tiles whose strided mode is walked first are those of SmemLayout, and so are their boxes."""
    panels = SmemLayout(major, mode, f16, 128, 64)
    order = (1, 2) if major is Major.K else (2, 1)
    copy = make_tma_copy(f16, GLOBAL[major], tile_to_shape(gmma_atom(major, mode, f16), (128, 64), order))
    assert copy.map_box == panels.panel_box
    assert copy.swizzle == mode.span
    along = copy.order[0]
    assert [(2 * box.offset, box.coordinates[along], box.coordinates[1 - along]) for box in copy.boxes()] == [
        (panel * panels.panel_bytes, panel * panels.panel_extent, 0) for panel in range(panels.panels)
    ]


EXTENTS = st.sampled_from([1, 2, 4, 8, 16, 32, 64])


@settings(max_examples=80, deadline=None)
@given(
    st.lists(EXTENTS, min_size=2, max_size=4).filter(lambda extents: size(tuple(extents)) <= 512),
    st.randoms(use_true_random=False),
    st.sampled_from([1, 2, 4]),
)
def test_any_compact_layout_of_up_to_four_modes(shape, random, ctas):
    """Where it is not refused, every element arrives where the layout has it, and CTAs share the boxes out."""
    ranks = [random.sample(range(1, 1 + len(shape)), len(shape)) for _ in range(2)]
    inner = random.randrange(len(shape))
    shape[inner] = max(4, shape[inner])
    for order in ranks:
        order[inner] = 0  # the same mode is contiguous in both: else boxes have single elements, which are refused
    layout, tensor = (make_ordered_layout(tuple(shape), tuple(order)) for order in ranks)
    try:
        copy = make_tma_copy(f32, Layout(tuple(shape), tuple(s or 8192 for s in tensor.stride)), layout, multicast=ctas)
    except DiagnosticError as error:
        if error.diagnostics[0].rule.id not in ("copy.box", "copy.multicast"):
            raise
        return
    assert copy.box[copy.order[0]] * 4 % 16 == 0
    shares = [tma_partition(copy, cta, ctas) for cta in range(ctas)]
    assert arrived(copy, [box for share in shares for box in share]) == wanted(layout)
    assert len({len(share) for share in shares}) == 1


def test_extents_of_a_box_end_at_256():
    copy = make_tma_copy(u8, Layout((512, 1024), (1024, 1)), Layout((4, 512), (512, 1)))
    assert copy.box == (1, 256)
    assert (copy.count, copy.at(3)) == (8, TmaBox(768, (1, 256)))
    assert arrived(copy, copy.boxes()) == wanted(copy.layout)


@pytest.mark.parametrize(
    ("rows", "of_box"), [(255, 255), (256, 256), (257, 1), (258, 129), (263, 1), (510, 255), (512, 256), (514, 2)]
)
def test_rows_of_a_box_divide_those_of_the_tile(rows, of_box):
    copy = make_tma_copy(u8, Layout((1024, 64), (64, 1)), Layout((rows, 16), (16, 1)))
    assert (copy.box, copy.count) == ((of_box, 16), rows // of_box)
    assert arrived(copy, copy.boxes()) == wanted(copy.layout)


def test_a_mode_in_another_order_is_boxes_of_its_runs():
    """Even rows before odd ones: a box goes on only where the tensor does."""
    layout = Layout(((2, 4), 64), ((256, 64), 1))
    copy = make_tma_copy(f16, GLOBAL[Major.K], layout)
    assert (copy.box, copy.count) == ((1, 64), 8)
    assert arrived(copy, copy.boxes()) == wanted(layout)


@pytest.mark.parametrize("steps", [(8, 1, 512), (1, 1, 512), (4096, 1, 512)])
def test_strides_of_run_time_come_after_all_others(steps):
    """As CuTe orders them, whatever they turn out to be: one of 1 is not the contiguous mode either."""
    slow, *others = steps
    tensor = Layout((64, 64, 4), (Dynamic(slow), *others))
    copy = make_tma_copy(f16, tensor, Layout((2, 64, 4), (256, 1, 64)))
    assert copy.order == (1, 2, 0)
    assert copy.map_box == (2, 4, 64)


def test_a_mode_of_one_element_says_nothing_of_the_order():
    """Its stride is never used, whatever it is: 1 here, beside and within the modes that are walked."""
    tensor = Layout((64, (1, 64), (1, 4)), (512, (7, 1), (1, 2**15)))
    copy = make_tma_copy(f16, tensor, Layout((2, 64, 4), (256, 1, 64)))
    assert copy.order == (1, 0, 2)
    lone = make_tma_copy(f16, Layout((64, 64, 1), (64, 1, 1)), Layout((2, 64, 1), (64, 1, 0)))
    assert lone.order[0] == 1


def test_a_map_has_at_most_five_dimensions():
    def made(modes):
        shape = (8,) * modes
        return make_tma_copy(f16, Layout(shape), Layout(shape))

    assert made(5).order == (0, 1, 2, 3, 4)
    with pytest.raises(DiagnosticError, match="the tensor has 6 modes, and a map 5"):
        made(6)


def test_ctas_take_turns_at_panels():
    """Four panels of 64 columns for two CTAs."""
    layout = tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), (128, 256))
    copy = make_tma_copy(f16, GLOBAL[Major.K], layout, multicast=2)
    assert [box.coordinates for box in tma_partition(copy, 1, 2)] == [(0, 128), (0, 192)]
    assert [box.offset for box in tma_partition(copy, 1, 2)] == [2 * 128 * 64, 3 * 128 * 64]


def test_ctas_load_quarters():
    """As of hopper_gemm: a 128 x 64 tile of A, of which each of four CTAs loads 32 rows."""
    layout = tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), (128, 64))
    copy = make_tma_copy(f16, GLOBAL[Major.K], layout, multicast=4)
    assert copy.map_box == (32, 64)
    assert tma_partition(copy, 2, 4) == (TmaBox(2 * 32 * 64, (64, 0)),)
    assert copy.coordinates_of(copy.at(2), (512, 128)) == (128, 576)


@pytest.mark.parametrize("ctas", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("rows", [1, 2, 8])
def test_a_box_is_cut_along_its_outermost_dimension(rows, ctas):
    """A row of 64 elements is cut as well, where it is the only dimension, into runs of no less than 16 bytes."""
    layout = Layout((rows, 64), (64, 1))
    if ctas > (rows if rows > 1 else 64 * 2 // 16):
        with pytest.raises(DiagnosticError) as caught:
            make_tma_copy(f16, GLOBAL[Major.K], layout, multicast=ctas)
        (found,) = caught.value.diagnostics
        assert found.rule.id == "copy.multicast"
        assert f"its outermost extent, {rows if rows > 1 else 64}, cannot be cut into {ctas}" in found.message
        return
    copy = make_tma_copy(f16, GLOBAL[Major.K], layout, multicast=ctas)
    assert copy.map_box == ((rows // ctas, 64) if rows > 1 else (1, 64 // ctas))
    assert copy.count == ctas
    assert arrived(copy, copy.boxes()) == wanted(layout)


@pytest.mark.parametrize(("element", "extents"), [(u4, (31, 32, 33, 64)), (u8, (8, 16, 24, 32)), (f32, (2, 4, 6, 8))])
def test_rows_of_a_box_are_whole_units_of_16_bytes(element, extents):
    """cuTensorMapEncodeTiled: the bytes of the innermost extent are a multiple of 16. 31 of 4 bits are not 16 bytes."""
    for extent in extents:
        tensor, layout = Layout((64, 1024), (1024, 1)), Layout((8, extent), (extent, 1))
        if extent * element.bits % 128:
            with pytest.raises(DiagnosticError, match=rf"copy\.box.*{-(-extent * element.bits // 8)} bytes follow"):
                make_tma_copy(element, tensor, layout)
        else:
            assert make_tma_copy(element, tensor, layout).map_box == (8, extent)


K_TILE = tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), (128, 64))
REFUSED = {
    "the other major": (lambda: make_tma_copy(f16, GLOBAL[Major.MN], K_TILE), "copy.box", "1 of f16"),
    "gaps": (lambda: make_tma_copy(f16, GLOBAL[Major.K], Layout((64, 64), (72, 1))), "copy.box", "without gaps"),
    "no contiguous mode": (
        lambda: make_tma_copy(f16, Layout((64, 64), (128, 2)), Layout((64, 64), (64, 1))),
        "copy.box",
        "0 modes of the tensor have a stride of 1",
    ),
    "ranks": (
        lambda: make_tma_copy(f16, Layout((64, 64, 2), (64, 1, 4096)), Layout((64, 64), (64, 1))),
        "copy.box",
        "the tensor has 3 modes",
    ),
    "another swizzle": (
        lambda: make_tma_copy(f16, GLOBAL[Major.K], ComposedLayout(Swizzle(3, 2, 3), 0, Layout((64, 64), (64, 1)))),
        "copy.box",
        "its swizzle is Sw<3,3,3> of bytes",
    ),
    "a part of a tile": (
        lambda: make_tma_copy(f16, GLOBAL[Major.K], ComposedLayout(Swizzle(3, 3, 3), 64, Layout((64, 64), (64, 1)))),
        "copy.box",
        "it does not begin at 0",
    ),
    "three CTAs": (
        lambda: make_tma_copy(f16, GLOBAL[Major.K], K_TILE, multicast=3),
        "copy.multicast",
        "cannot be cut into 3",
    ),
    "two of one box": (lambda: tma_partition(make_tma_copy(f16, GLOBAL[Major.K], K_TILE), 0, 2), "copy.multicast", "2"),
    "CTA four": (
        lambda: tma_partition(make_tma_copy(f16, GLOBAL[Major.K], K_TILE, multicast=4), 4, 4),
        "copy.multicast",
        "the cluster has no such CTA",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", REFUSED)
def test_refused(mistake):
    make, rule, words = REFUSED[mistake]
    with pytest.raises(DiagnosticError) as caught:
        make()
    (found,) = caught.value.diagnostics
    assert found.rule.id == rule
    assert words in said(found)


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_a_box_is_no_wider_than_its_swizzle(bits):
    """PTX ISA 5.5.7: the innermost dimension of a box is at most as wide as the swizzle. Rows here are 256 bytes."""
    layout = ComposedLayout(Swizzle(bits, 4, 3), SmemPtr(16), Layout((8, 128), (128, 1)))
    copy = make_tma_copy(f16, GLOBAL[Major.K], layout)
    assert (copy.swizzle, copy.map_box) == (16 << bits, (1, (16 << bits) // 2))
    assert arrived(copy, copy.boxes()) == wanted(layout)


def test_boxes_that_ctas_can_share_out_are_not_cut():
    tile = tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), (128, 128), "left")
    whole = make_tma_copy(f16, GLOBAL[Major.K], tile)
    assert whole.count == 2
    assert make_tma_copy(f16, GLOBAL[Major.K], tile, multicast=2) == whole
    assert make_tma_copy(f16, GLOBAL[Major.K], tile, multicast=4).count == 4
