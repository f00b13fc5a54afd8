"""Tensor maps that walk over pixels."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Im2col, TensorMap, f16, u8, u32
from nvbackend.runtime import DeviceArray, tensor_map
from tests.rules.example import kernel, program

PIXELS = nvb.TensorMap(f16, (64, 64), 128, nvb.Im2col(4, (-1, -1), (-1, -1)))
BOX = nvb.TensorMap(f16, (1, 1, 64, 64))


@kernel("tma.map-mode")
def boxes_where_pixels_are_asked_for(k, boxes: BOX, pixels: PIXELS):
    tile, full = k.shared(u8, 64 * 64 * 2, align=1024), k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=64 * 64 * 2)
        k.tma.load_box(tile, boxes, (0, 0, 0, 0), full, mode="im2col", offsets=(0, 0))  # breaks
        k.tma.load_box(tile, pixels, (0, 0, 0, 0), full, mode="im2col", offsets=(0, 0))  # keeps


@kernel("tma.map-address")
def map_at_any_word(k, maps: nvb.Pointer(u32, align=128)):
    k.tensormap.at(maps + 4, BOX)  # breaks
    k.tensormap.at(maps + 32, BOX)  # keeps


@program("tensor-map.im2col-rank")
def pixels_of_a_matrix():
    walk = Im2col(2, (), ())  # breaks
    walk = Im2col(3, (0,), (0,))  # keeps
    return list(tensor_map.check_tensor_map("a", TensorMap(f16, (64, 16), 32, walk)))


@program("tensor-map.im2col-corners")
def corners_that_the_map_can_not_hold():
    walk = Im2col(4, (-200, -1), (-1, -1))  # breaks
    walk = Im2col(4, (-100, -1), (-1, -1))  # keeps
    return list(tensor_map.check_tensor_map("a", TensorMap(f16, (64, 16), 32, walk)))


@program("tensor-map.im2col-area")
def a_filter_wider_than_the_image():
    walk = Im2col(3, (0,), (-9,))  # breaks
    walk = Im2col(3, (0,), (-8,))  # keeps
    array = DeviceArray(0x1000, (1, 9, 16), (288, 32, 2), "float16", 2)
    return list(tensor_map.check_array("a", TensorMap(f16, (64, 16), 32, walk), array))


@program("tensor-map.im2col-wide")
def another_number_of_pixels_along_w():
    pixels = 64  # breaks
    pixels = 128  # keeps
    return list(tensor_map.check_tensor_map("a", TensorMap(f16, (pixels, 32), 64, Im2col(4, (0,), (0,), "w128"))))


@program("tensor-map.im2col-stride")
def stride_for_one_of_two_dimensions():
    walk = Im2col(4, (-1, -1), (-1, -1), stride=(2,))  # breaks
    walk = Im2col(4, (-1, -1), (-1, -1), stride=(2, 2))  # keeps
    return list(tensor_map.check_tensor_map("a", TensorMap(f16, (64, 32), 64, walk)))


@program("tensor-map.convolution")
def filter_of_no_extent():
    Im2col.of_convolution((3, 0), padding=(1, 1))  # breaks
    Im2col.of_convolution((3, 1), padding=(1, 1))  # keeps


@program("tensor-map.walked")
def shape_without_channels():
    Im2col.of_convolution((3, 3)).walked((8, 32, 32))  # breaks
    Im2col.of_convolution((3, 3)).walked((8, 32, 32, 64))  # keeps
