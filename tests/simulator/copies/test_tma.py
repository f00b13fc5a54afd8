"""TMA's pieces against loops over elements, and swizzles against the tables printed in PTX ISA 5.5.7."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend.diagnostics import DiagnosticError
from nvbackend.simulator.copies.swizzle import swizzled
from nvbackend.simulator.copies.tensor_map import TensorMap
from nvbackend.simulator.copies.tma import fill, moves

TYPES = {"u8": np.uint8, "u16": np.uint16, "f16": np.float16, "f32": np.float32, "u64": np.uint64}
SHARED = 1 << 15
TABLES = {
    # the chunk of 16 bytes that each place of a line of 128 bytes holds, line by line
    (0, "16B"): ["01234567"],
    (32, "16B"): ["01234567", "10325476"],
    (64, "16B"): ["01234567", "10325476", "23016745", "32107654"],
    (128, "16B"): [
        *("01234567", "10325476", "23016745", "32107654"),
        *("45670123", "54761032", "67452301", "76543210"),
    ],
    (128, "32B"): ["01234567", "23016745", "45670123", "67452301"],
    (128, "64B"): ["01234567", "45670123"],
}


@pytest.mark.parametrize(("span", "atomicity"), TABLES)
def test_chunks_change_places_as_the_tables_say(span, atomicity):
    lines = TABLES[span, atomicity]
    for line in range(16):
        for place, chunk in enumerate(lines[line % len(lines)]):
            plain = 128 * line + 16 * int(chunk) + 5
            assert swizzled(np.array([plain]), span, atomicity)[0] == 128 * line + 16 * place + 5


def test_halves_of_16_bytes_change_places_in_odd_lines():
    plain = np.arange(4096)
    whole, flipped = swizzled(plain, 128, "32B"), swizzled(plain, 128, "32B+8B flip")
    odd = plain // 128 % 2 == 1
    assert np.array_equal(flipped[~odd], whole[~odd])
    assert np.array_equal(flipped[odd], whole[odd] ^ 8)


@st.composite
def boxes(draw):
    """A tensor, a box and a start, small enough to loop over."""
    name = draw(st.sampled_from(sorted(TYPES)))
    size = np.dtype(TYPES[name]).itemsize
    rank = draw(st.integers(1, 5))
    wide = 16 // size
    inner = wide * draw(st.integers(1, 3))
    box = (inner, *(draw(st.integers(1, 3)) for _ in range(rank - 1)))
    extents = (draw(st.integers(1, 4 * wide)), *(draw(st.integers(1, 4)) for _ in range(rank - 1)))
    steps = (1, *(draw(st.integers(1, 3)) for _ in range(rank - 1)))
    start = (wide * draw(st.integers(-2, 4)), *(draw(st.integers(-2, 4)) for _ in range(rank - 1)))
    spans = [span for span in (0, 32, 64, 128) if span == 0 or span >= inner * size]
    return name, extents, box, steps, start, draw(st.sampled_from(spans)), draw(st.integers(0, 15)) * 128


def laid_out(name, extents):
    """An array of these extents with padded rows in bytes, its strides (innermost left out), and the bytes."""
    size = np.dtype(TYPES[name]).itemsize
    strides, step = [], extents[0] * size
    for extent in extents[1:]:
        step = -(-step // 16) * 16 + 16
        strides.append(step)
        step *= extent
    data = np.random.default_rng(3).integers(1, 255, step + 64).astype(np.uint8)
    return data, tuple(strides)


@given(boxes())
def test_a_tile_is_that_of_a_loop_over_elements(case):
    name, extents, box, steps, start, span, base = case
    size = np.dtype(TYPES[name]).itemsize
    data, strides = laid_out(name, extents)
    tensor_map = TensorMap(0, name, extents, strides, box, steps, swizzle=span)
    found = moves("load", tensor_map, "tile", start, SHARED + base)
    counts = [-(-extent // step) for extent, step in zip(box, steps, strict=True)]
    expected = {}
    for number, place in enumerate(itertools.product(*(range(count) for count in reversed(counts)))):
        at = [one + index * step for one, index, step in zip(start, reversed(place), steps, strict=True)]
        inside = all(0 <= one < extent for one, extent in zip(at, extents, strict=True))
        source = at[0] * size + sum(one * stride for one, stride in zip(at[1:], strides, strict=True))
        plain = SHARED + base + number * size
        row, chunk = plain // 128, plain // 16 % 8
        moved = {0: 0, 32: row % 2, 64: row % 4, 128: row % 8}[span] if span == 128 else 0
        if span in (32, 64):
            moved = row % (span // 16)
        for byte in range(size):
            target = plain // 128 * 128 + 16 * (chunk ^ moved) + plain % 16 + byte
            expected[target] = data[source + byte] if inside else 0
    got = {}
    for source, target, inside in zip(found.tensor, found.shared, found.inside, strict=True):
        for byte in range(found.size):
            got[int(target) + byte] = data[source + byte] if inside else 0
    assert got == expected
    assert found.bytes == len(expected)


def walk(array, lower, upper, start, offsets, channel, pixels, channels):
    """pixels x channels: the places from `start` (batch, space ...) on, W fastest, each read at its place + offsets."""
    batch, *space, _ = array.shape
    spans = [range(low, extent + high) for low, high, extent in zip(lower, upper, space, strict=True)]
    every = list(itertools.product(range(batch + 9), *spans))
    first = every.index(tuple(start))
    found = np.zeros((pixels, channels), array.dtype)
    for pixel, (image, *place) in enumerate(every[first : first + pixels]):
        read = [one + offset for one, offset in zip(place, offsets, strict=True)]
        if image < batch and all(0 <= one < extent for one, extent in zip(read, space, strict=True)):
            found[pixel] = array[(image, *read, slice(channel, channel + channels))]
    return found


WALKS = [
    ((3, 29, 32), (-1,), (-1,), (0, -1), (2,), 0),
    ((3, 29, 32), (-2,), (-3,), (1, 7), (4,), 16),
    ((2, 7, 9, 32), (-1, -1), (-1, -1), (0, -1, -1), (0, 0), 0),
    ((2, 8, 11, 16), (-2, -1), (-1, -3), (0, -2, 0), (3, 1), 0),
    ((3, 4, 5, 16), (0, -1), (-1, -1), (1, 1, 2), (1, 1), 0),
    ((2, 4, 5, 6, 16), (-1, -1, -1), (-1, -1, -1), (0, -1, 1, 2), (2, 1, 0), 0),
    ((2, 5, 4, 7, 32), (0, -1, -2), (-1, -1, -2), (0, 1, -1, 3), (1, 2, 3), 16),
]


def loaded(tensor_map, found, array, count):
    """What a load puts into `count` bytes of shared memory."""
    data = array.reshape(-1).view(np.uint8)
    shared = np.zeros(count, np.uint8)
    for source, target, inside in zip(found.tensor, found.shared, found.inside, strict=True):
        piece = data[source : source + found.size] if inside else fill(tensor_map, found.size)
        shared[target : target + found.size] = piece
    return shared


def map_of(array, box, **fields):
    return TensorMap(0, "f16", array.shape[::-1], array.strides[-2::-1], box, **fields)


@pytest.mark.parametrize(("shape", "lower", "upper", "start", "offsets", "channel"), WALKS)
def test_im2col_walks_over_the_pixels(shape, lower, upper, start, offsets, channel):
    array = np.random.default_rng(1).integers(-100, 100, shape).astype(np.float16)
    tensor_map = map_of(array, (16, 32), mode="im2col", lower=lower[::-1], upper=upper[::-1])
    found = moves("load", tensor_map, "im2col", [channel, *start[::-1]], 0, offsets[::-1])
    got = loaded(tensor_map, found, array, 1024).view(np.float16).reshape(32, 16)
    assert np.array_equal(got, walk(array, lower, upper, start, offsets, channel, 32, 16))


def test_im2col_w_keeps_height_and_goes_on_in_the_next_image():
    array = np.arange(4 * 3 * 5 * 8).reshape(4, 3, 5, 8).astype(np.float16)
    tensor_map = map_of(array, (8, 8), mode="im2col::w", lower=(-1,), upper=(0,), swizzle=64)
    found = moves("load", tensor_map, "im2col::w", [0, 3, 2, 1], 0, (0, 1))
    got = loaded(replace(tensor_map, swizzle=0), replace(found, shared=np.arange(8) * 16), array, 128)
    expected = np.zeros((8, 8), np.float16)
    for row, (image, column) in enumerate([(1, 3), (1, 4), (2, -1), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]):
        if column + 1 < 5:
            expected[row] = array[image, 2, column + 1]
    assert np.array_equal(got.view(np.float16).reshape(8, 8), expected)


@pytest.mark.parametrize("rows", [(7, -1, 3, 12), (0, 9, 10, -2)])
def test_gather4_takes_four_rows(rows):
    array = np.arange(10 * 32).reshape(10, 32).astype(np.float16)
    tensor_map = map_of(array, (16, 1))
    found = moves("load", tensor_map, "tile::gather4", [16, *rows], 0)
    got = loaded(tensor_map, found, array, 128).view(np.float16).reshape(4, 16)
    expected = np.stack([array[row, 16:] if 0 <= row < 10 else np.zeros(16) for row in rows])
    assert np.array_equal(got, expected)


def test_what_is_outside_of_a_float_tensor_can_be_nan():
    array = np.ones((4, 8), np.float16)
    tensor_map = map_of(array, (8, 2), fill="nan")
    found = moves("load", tensor_map, "tile", [0, 3], 0)
    got = loaded(tensor_map, found, array, 32).view(np.float16).reshape(2, 8)
    assert (got[0] == 1).all()
    assert np.isnan(got[1]).all()
    assert (got[1].view(np.uint16) == 0x7FF7).all()


@pytest.mark.parametrize("element", ["f32", "tf32"])
def test_what_is_outside_has_the_bits_that_an_h200_fills_in(element):
    array = np.ones((4, 8), np.float32)
    tensor_map = replace(map_of(array, (8, 2), fill="nan"), element=element)
    found = moves("load", tensor_map, "tile", [0, 3], 0)
    got = loaded(tensor_map, found, array, 64).view(np.uint32).reshape(2, 8)
    assert (got[1] == 0x7FF77FF7).all()


def test_padded_types_leave_gaps_in_shared_memory():
    tensor_map = TensorMap(0, "b4x16_p64", (64, 4), (32,), (32, 2))
    found = moves("load", tensor_map, "tile", [32, 1], 0)
    assert found.size == 8
    assert found.tensor.tolist() == [48, 56, 80, 88]
    assert found.shared.tolist() == [0, 16, 32, 48]
    assert found.bytes == 64


PLAIN = TensorMap(0, "f16", (64, 8), (128,), (16, 2))
WRONG = {
    "start": (PLAIN, "tile", [4, 0], 0, True),
    "place in shared memory": (PLAIN, "tile", [0, 0], 64, True),
    "store before the tensor": (PLAIN, "tile", [0, -1], 0, False),
    "rank": (PLAIN, "tile", [0, 0, 0], 0, True),
    "mode": (PLAIN, "im2col", [0, 0], 0, True),
    "rows": (PLAIN, "tile::gather4", [0, 1, 2, 3, 4], 0, True),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_the_hardware_stops_at_is_said(case):
    tensor_map, mode, coordinates, shared, load = WRONG[case]
    with pytest.raises(DiagnosticError) as caught:
        moves("the copy", tensor_map, mode, coordinates, shared, load=load)
    assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.tma-place"]


def test_what_is_not_documented_is_not_guessed():
    for tensor_map, offsets in ((replace(PLAIN, interleave=16), ()), (map_w(), (2, 0))):
        with pytest.raises(DiagnosticError) as caught:
            moves("the copy", tensor_map, tensor_map.mode, [0] * tensor_map.rank, 0, offsets)
        assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.not-modelled"]


def map_w():
    return TensorMap(0, "f16", (8, 9, 3), (16, 160), (8, 8), mode="im2col::w", lower=(0,), upper=(0,), swizzle=64)


def test_a_walk_by_steps_starts_on_one():
    """What it goes back to from between them is documented nowhere."""
    pixels = TensorMap(0, "f16", (8, 9, 3), (16, 160), (8, 8), (1, 2, 1), mode="im2col", lower=(-1,), upper=(0,))
    assert moves("x", pixels, "im2col", (0, 3, 0), 0, (0,)).size == 16
    with pytest.raises(DiagnosticError, match=r"simulator\.not-modelled.*goes by 2"):
        moves("x", pixels, "im2col", (0, 2, 0), 0, (0,))
