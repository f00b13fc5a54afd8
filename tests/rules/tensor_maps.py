"""Tensor maps of arrays: what the driver's encoder takes."""

from __future__ import annotations

from unittest.mock import patch

import nvbackend as nvb
from nvbackend import TensorMap, e2m3, f16, f32, i64, u32
from nvbackend.runtime import DeviceArray, tensor_map
from tests.rules.example import kernel, program

ROW = TensorMap(f32, box=(1, 32), swizzle=0)


@program("tensor-map.address")
def array_at_eight_bytes():
    array = DeviceArray(0x1008, (64, 64), (128, 2), "float16", 2)  # breaks
    array = DeviceArray(0x1010, (64, 64), (128, 2), "float16", 2)  # keeps
    return list(tensor_map.check_array("a", TensorMap(f16, (8, 64)), array))


@program("tensor-map.extent")
def array_without_rows():
    array = DeviceArray(0x1000, (0, 64), (128, 2), "float16", 2)  # breaks
    array = DeviceArray(0x1000, (1, 64), (128, 2), "float16", 2)  # keeps
    return list(tensor_map.check_array("a", TensorMap(f16, (8, 64)), array))


@program("tensor-map.inner-stride")
def elements_apart():
    array = DeviceArray(0x1000, (64, 64), (256, 4), "float16", 2)  # breaks
    array = DeviceArray(0x1000, (64, 64), (256, 2), "float16", 2)  # keeps
    return list(tensor_map.check_array("a", TensorMap(f16, (8, 64)), array))


@program("tensor-map.rank")
def vector_for_a_matrix():
    array = DeviceArray(0x1000, (64,), (2,), "float16", 2)  # breaks
    array = DeviceArray(0x1000, (1, 64), (128, 2), "float16", 2)  # keeps
    return list(tensor_map.check_array("a", TensorMap(f16, (8, 64)), array))


@program("tensor-map.stride")
def rows_of_120_bytes():
    array = DeviceArray(0x1000, (64, 60), (120, 2), "float16", 2)  # breaks
    array = DeviceArray(0x1000, (64, 60), (128, 2), "float16", 2)  # keeps
    return list(tensor_map.check_array("a", TensorMap(f16, (8, 64)), array))


@program("tensor-map.box")
def box_of_more_than_256_rows():
    return TensorMap(f16, (257, 64))  # breaks
    return TensorMap(f16, (256, 64))  # keeps


@program("tensor-map.box-rank")
def box_of_six_dimensions():
    return TensorMap(f16, (1, 1, 1, 1, 8, 64))  # breaks
    return TensorMap(f16, (1, 1, 1, 8, 64))  # keeps


@program("tensor-map.box-bytes")
def box_rows_of_24_bytes():
    return TensorMap(f16, (8, 12), 32)  # breaks
    return TensorMap(f16, (8, 16), 32)  # keeps


@program("tensor-map.element")
def elements_of_six_bits():
    return TensorMap(e2m3, (8, 32), 0)  # breaks
    return TensorMap(f16, (8, 32), 0)  # keeps


@program("tensor-map.swizzle")
def box_wider_than_the_swizzle():
    return TensorMap(f16, (8, 128), 128)  # breaks
    return TensorMap(f16, (8, 64), 128)  # keeps


@program("tensor-map.word")
def strides_of_three_dimensions():
    nvb.TensorMapWord(0x1000, "f16", (64, 64), (64, 8), (128, 8192))  # breaks
    nvb.TensorMapWord(0x1000, "f16", (64, 64), (64, 8), (128,))  # keeps


@program("tensor-map.unavailable")
def cuda_core_without_tensor_maps():
    plan = tensor_map.plan(TensorMap(f16, (8, 64)), DeviceArray(0x1000, (64, 64), (128, 2), "float16", 2))
    with patch("cuda.core.utils.StridedMemoryView", object), patch("cuda.core.__version__", "0.7.0"):  # breaks
        tensor_map.encode("a", plan)  # breaks
    with patch("cuda.core.utils.StridedMemoryView"):  # keeps
        tensor_map.encode("a", plan)  # keeps


@program("tensor-map.encoding-failed")
def cuda_core_that_refuses():
    plan = tensor_map.plan(TensorMap(f16, (8, 64)), DeviceArray(0x1000, (64, 64), (128, 2), "float16", 2))
    with patch("cuda.core.utils.StridedMemoryView") as view:
        made = view.from_cuda_array_interface.return_value
        made.as_tensor_map.side_effect = ValueError("a stride it does not like")  # breaks
        tensor_map.encode("a", plan)


@program("tensor-map.swizzle-bytes")
def swizzle_that_no_map_has():
    TensorMap(f16, box=(64, 64), swizzle=256)  # breaks
    TensorMap(f16, box=(64, 64), swizzle=128)  # keeps


@kernel("tensor-map.not-acquired", threads=64)
def map_used_as_it_was_before(k, maps: nvb.Pointer(u32, align=128), x: nvb.Pointer[f32]):
    made, scratch, row = maps + k.block_id() * 32, k.shared(u32, 32, align=128), k.shared(f32, 32, align=128)
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 0):
        scratch[k.lane_id()] = made[k.lane_id()]
        k.warp.sync()
        with k.one_thread():
            k.tensormap.replace(scratch, "global_address", k.generic_address(x).bitcast(i64))
        k.warp.sync()
        k.tensormap.publish(made, scratch)
    k.barrier.sync()
    with k.one_thread(1):
        k.tensormap.acquire(made)  # keeps
        k.mbarrier.arrive(full, expect_tx=128)
        k.tma.load_box(row, k.tensormap.at(made, ROW), (0, 0), full)  # breaks
        k.tma.load_box(row, k.tensormap.at(made, ROW), (0, 0), full)  # keeps
    k.mbarrier.wait(full, 0)


@kernel("tensor-map.not-released", threads=64)
def map_changed_in_place(k, maps: nvb.Pointer(u32, align=128), x: nvb.Pointer[f32]):
    row, full = k.shared(f32, 32, align=128), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.one_thread():
        k.tensormap.replace(maps, "global_address", k.generic_address(x).bitcast(i64))  # breaks
        k.tensormap.replace(maps, "global_address", k.generic_address(x).bitcast(i64))  # keeps
        k.tensormap.release()  # keeps
    k.barrier.sync()
    with k.one_thread(1):
        k.tensormap.acquire(maps)
        k.mbarrier.arrive(full, expect_tx=128)
        k.tma.load_box(row, k.tensormap.at(maps, ROW), (0, 0), full)
    k.mbarrier.wait(full, 0)
