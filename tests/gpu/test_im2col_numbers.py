"""TMA loads in im2col mode on a GPU, against a walk over the pixels in NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.intrinsics.row.types import f16, u32
from nvbackend.signature import Im2col, Parameter, TensorMap
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = ON_DEVICES

PIXELS, CHANNELS = 32, 16


def walk(array, lower, upper, start, offsets, channel):
    """PIXELS x CHANNELS: the places from `start` (batch, space ...) on, W fastest, each read at its place + offsets."""
    batch, *space, _ = array.shape
    spans = [range(low, extent + high) for low, high, extent in zip(lower, upper, space, strict=True)]
    every = list(itertools.product(range(batch), *spans))
    first = every.index(tuple(start))
    found = np.zeros((PIXELS, CHANNELS), array.dtype)
    for pixel, (image, *place) in enumerate(every[first : first + PIXELS]):
        read = [one + offset for one, offset in zip(place, offsets, strict=True)]
        if all(0 <= one < extent for one, extent in zip(read, space, strict=True)):
            found[pixel] = array[(image, *read, slice(channel, channel + CHANNELS))]
    return found


CASES = {
    # shape, lower and upper corners (outermost first), first place, offsets (outermost first), first channel
    "width": ((3, 29, 32), (-1,), (-1,), (0, -1), (2,), 0),
    "width, next image": ((3, 29, 32), (-2,), (-3,), (1, 7), (4,), 16),
    "plane": ((2, 7, 9, 32), (-1, -1), (-1, -1), (0, -1, -1), (0, 0), 0),
    "plane, a tap in the middle": ((2, 7, 9, 32), (-1, -1), (-1, -1), (0, 2, 3), (1, 2), 16),
    "plane, corners that differ": ((2, 8, 11, 16), (-2, -1), (-1, -3), (0, -2, 0), (3, 1), 0),
    "plane, into the next image": ((3, 4, 5, 16), (0, -1), (-1, -1), (1, 1, 2), (1, 1), 0),
    "space": ((2, 4, 5, 6, 16), (-1, -1, -1), (-1, -1, -1), (0, -1, 1, 2), (2, 1, 0), 0),
    "space, corners that differ": ((2, 5, 4, 7, 32), (0, -1, -2), (-1, -1, -2), (0, 1, -1, 3), (1, 2, 3), 16),
}


@pytest.mark.parametrize("swizzle", [0, 32])
@pytest.mark.parametrize("case", CASES)
def test_a_load_walks_over_the_pixels(case, swizzle):
    shape, lower, upper, start, offsets, channel = CASES[case]
    tensor_map = TensorMap(f16, (PIXELS, CHANNELS), swizzle, Im2col(len(shape), lower, upper))
    coordinates = [channel, *reversed(start)]

    def body(k, source, out, pixels):
        tile = k.shared(f16, PIXELS * CHANNELS, align=1024)
        full = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tensor_map.bytes)
            k.tma.load_box(tile, pixels, coordinates, full, mode="im2col", offsets=list(reversed(offsets)))
        k.mbarrier.wait(full, 0)
        loaded = tile.cast(u32)
        for turn in range(tensor_map.bytes // 4 // 32):
            place = k.thread_id() + 32 * turn
            out[place] = loaded[place]

    array = np.random.default_rng(len(case)).integers(-100, 100, shape).astype(np.float16)
    given = (Parameter("pixels", tensor_map), device_array(array))
    found = words(body, np.zeros(1, np.uint32), tensor_map.bytes // 4, given).view(np.float16).reshape(PIXELS, CHANNELS)
    expected = walk(array, lower, upper, start, offsets, channel)
    if swizzle:
        # Rows of 32 bytes: the two halves of 16 bytes of every second group of four rows change places.
        swapped = np.arange(PIXELS) // 4 % 2 == 1
        expected[swapped] = np.roll(expected[swapped], CHANNELS // 2, axis=1)
    assert np.array_equal(found, expected)


def device_array(array):
    from numba import cuda

    return cuda.to_device(array)


def test_a_map_without_a_pixel_is_told_before_the_driver():
    tensor_map = TensorMap(f16, (PIXELS, CHANNELS), 0, Im2col(3, (-1,), (-9,)))
    given = (Parameter("pixels", tensor_map), device_array(np.zeros((1, 8, 16), np.float16)))
    with pytest.raises(nvb.DiagnosticError) as caught:
        words(lambda k, *_: None, np.zeros(1, np.uint32), 1, given)
    assert [one.rule_id for one in caught.value.diagnostics] == ["tensor-map.im2col-area"]
