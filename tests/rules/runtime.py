"""Launches, on a device that records what it is told."""

from __future__ import annotations

from unittest.mock import Mock, patch

import numpy as np

import nvbackend as nvb
from nvbackend import Pointer, Scalar, Target, f16, f32, i32, runtime
from nvbackend.runtime.device import KernelLimits
from nvbackend.runtime.streams import stream_handle
from tests.rules.example import program
from tests.support.runtime import FakeArray, FakeCompiled, FakeDevice, signature


@program("launch.alignment")
def array_at_eight_bytes():
    kernel = runtime.load(FakeCompiled(signature(Pointer(f16))), device=FakeDevice())
    kernel.launch(1, FakeArray((4,), pointer=0x7F0000000008))  # breaks
    kernel.launch(1, FakeArray((4,), pointer=0x7F0000000010))  # keeps


@program("launch.architecture")
def kernel_of_another_chip():
    target = Target.parse("sm_100a")  # breaks
    target = Target.parse("sm_90a")  # keeps
    runtime.load(FakeCompiled(signature(), target=target), device=FakeDevice())


@program("launch.argument-count")
def argument_left_out():
    kernel = runtime.load(FakeCompiled(signature(Pointer(f16), Scalar(i32))), device=FakeDevice())
    kernel.launch(1, FakeArray((4,)))  # breaks
    kernel.launch(1, FakeArray((4,)), 4)  # keeps


@program("launch.argument-kind")
def number_for_an_array():
    kernel = runtime.load(FakeCompiled(signature(Pointer(f16))), device=FakeDevice())
    kernel.launch(1, 5)  # breaks
    kernel.launch(1, FakeArray((4,)))  # keeps


@program("launch.asynchronous-error")
def kernel_that_faults():
    device = FakeDevice()
    kernel = runtime.load(FakeCompiled(signature()), device=device)
    kernel.launch(1)
    device.failing = "synchronize"  # breaks
    kernel.synchronize()


@program("launch.device")
def array_of_the_host():
    kernel = runtime.load(FakeCompiled(signature(Pointer(f16))), device=FakeDevice())
    kernel.launch(1, np.zeros(4, np.float16))  # breaks
    kernel.launch(1, FakeArray((4,)))  # keeps


@program("launch.dtype")
def array_of_another_type():
    kernel = runtime.load(FakeCompiled(signature(Pointer(f16))), device=FakeDevice())
    kernel.launch(1, FakeArray((4,), "<f4"))  # breaks
    kernel.launch(1, FakeArray((4,), "<f2"))  # keeps


@program("launch.failed")
def launch_that_the_driver_refuses():
    device = FakeDevice()
    kernel = runtime.load(FakeCompiled(signature()), device=device)
    device.failing = "launch"  # breaks
    kernel.launch(1)


@program("launch.call")
def kernel_without_a_grid():
    kernel = runtime.load(FakeCompiled(signature()), device=FakeDevice())
    kernel()  # breaks
    kernel[1]()  # keeps


@program("launch.grid")
def grid_of_a_part_of_a_cluster():
    kernel = runtime.load(FakeCompiled(signature(cluster=4)), device=FakeDevice())
    kernel.launch(13)  # breaks
    kernel.launch(16)  # keeps


@program("launch.load-failed")
def cubin_that_the_driver_refuses():
    device = FakeDevice(failing="load")  # breaks
    device = FakeDevice()  # keeps
    runtime.load(FakeCompiled(signature()), device=device)


@program("launch.no-gpu")
def machine_without_a_gpu():
    with patch.dict("sys.modules", {"cuda.bindings.driver": None}):  # breaks
        runtime.load(FakeCompiled(signature()), device="gpu")  # breaks
    runtime.load(FakeCompiled(signature()), device=FakeDevice())  # keeps


@program("launch.device-name")
def device_that_is_not():
    device = "cpu"  # breaks
    device = FakeDevice()  # keeps
    runtime.load(FakeCompiled(signature()), device=device)


@program("launch.simulator-option")
def checks_on_a_gpu():
    device = FakeDevice()  # breaks
    device = "simulator"  # keeps
    text = ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k() { ret; }"
    runtime.load(FakeCompiled(signature(), ptx=text), device=device, checks=False)


@program("launch.scalar-range")
def number_that_does_not_fit():
    kernel = runtime.load(FakeCompiled(signature(Scalar(i32))), device=FakeDevice())
    kernel.launch(1, 2**31)  # breaks
    kernel.launch(1, 2**31 - 1)  # keeps


@program("launch.asserted")
def count_that_is_no_multiple():
    kernel = runtime.load(FakeCompiled(signature(Scalar(i32, multiple_of=8))), device=FakeDevice())
    kernel.launch(1, 12)  # breaks
    kernel.launch(1, 16)  # keeps


@program("launch.assumed")
def count_that_breaks_a_promise():
    @nvb.kernel("sm_90a", threads=32)
    def whole_tiles(k, x: nvb.Pointer[f32], n: i32):
        k.assume(n % 32 == 0)
        with k.range(n // 32) as tile:
            x[tile * 32 + k.thread_id()] = 1.0

    kernel = runtime.load(whole_tiles.compile(assemble=False), device="simulator")
    numbers = np.zeros(64, np.float32)
    kernel.launch(1, numbers, 48)  # breaks
    kernel.launch(1, numbers, 64)  # keeps


@program("launch.not-zero")
def counter_of_tiles_that_nobody_has_cleared():
    @nvb.kernel("sm_90a", threads=256)
    def count_up(k, counter: nvb.Pointer[i32], x: nvb.Pointer[i32], count: i32(minimum=1)):
        tiles = k.dynamic_tiles(counter, count, consumers=1)
        k.mbarrier.ready()
        with k.producer(40), tiles.draw():
            pass
        with k.consumers(232), tiles.take() as tile:
            k.atomic.add(x + tile, 1)

    kernel = runtime.load(count_up.compile(assemble=False), device="simulator")
    counter = np.full(1, 3, np.int32)  # breaks
    counter = np.zeros(1, np.int32)  # keeps
    kernel.launch(2, counter, np.zeros(8, np.int32), 8)


@program("launch.one-counter")
def two_counters_of_tiles_in_one_place():
    @nvb.kernel("sm_90a", threads=256)
    def count_twice(k, first: nvb.Pointer[i32], second: nvb.Pointer[i32], x: nvb.Pointer[i32], count: i32(minimum=1)):
        every = [k.dynamic_tiles(counter, count, consumers=1) for counter in (first, second)]
        k.mbarrier.ready()
        with k.producer(40):
            for tiles in every:
                with tiles.draw():
                    pass
        with k.consumers(232):
            for tiles in every:
                with tiles.take() as tile:
                    k.atomic.add(x + tile, 1)

    kernel = runtime.load(count_twice.compile(assemble=False), device="simulator")
    counter, x = np.zeros(1, np.int32), np.zeros(8, np.int32)
    kernel.launch(2, counter, counter, x, 8)  # breaks
    kernel.launch(2, counter, np.zeros(1, np.int32), x, 8)  # keeps


@program("launch.left-over")
def ctas_that_return_before_they_draw():
    @nvb.kernel("sm_90a", threads=256)
    def count_up(k, counter: nvb.Pointer[i32], x: nvb.Pointer[i32], count: i32(minimum=1)):
        tiles = k.dynamic_tiles(counter, count, consumers=1)
        k.mbarrier.ready()
        k.return_if(k.block_id() >= 2)  # breaks
        k.return_if(k.block_id() >= count)  # keeps
        with k.producer(40), tiles.draw():
            pass
        with k.consumers(232), tiles.take() as tile:
            k.atomic.add(x + tile, 1)

    kernel = runtime.load(count_up.compile(assemble=False), device="simulator")
    kernel.launch(4, np.zeros(1, np.int32), np.zeros(8, np.int32), 8)


@program("launch.overlap")
def one_array_for_two_parameters():
    @nvb.kernel("sm_90a", threads=32)
    def add_one(k, x: nvb.Pointer(f32, restrict=True), y: nvb.Pointer[f32]):
        x[k.thread_id()] = y[k.thread_id()] + 1.0

    kernel = runtime.load(add_one.compile(assemble=False), device="simulator")
    numbers = np.zeros(64, np.float32)
    kernel.launch(1, numbers[:32], numbers[:32])  # breaks
    kernel.launch(1, numbers[:32], numbers[32:])  # keeps


@program("launch.wrapped-index")
def row_and_stride_of_an_array_of_four_gigabytes():
    @nvb.kernel("sm_90a", threads=32)
    def clear_first_column(k, x: Pointer[f16], stride: i32):
        place = k.block_id() * stride  # breaks
        place = k.block_id().to(nvb.i64) * stride.to(nvb.i64)  # keeps
        x[place] = 0.0

    kernel = runtime.load(clear_first_column.compile(), device=FakeDevice())
    kernel.launch(2200, FakeArray((2200, 2**20)), 2**20)


@program("launch.shape")
def array_without_elements():
    kernel = runtime.load(FakeCompiled(signature(Pointer(f16))), device=FakeDevice())
    kernel.launch(1, FakeArray((0, 4), pointer=0))  # breaks
    kernel.launch(1, FakeArray((1, 4)))  # keeps


@program("launch.shared-memory")
def more_shared_memory_than_the_device_has():
    kernel = FakeCompiled(signature(shared=232449))  # breaks
    kernel = FakeCompiled(signature(shared=232448))  # keeps
    runtime.load(kernel, device=FakeDevice())


@program("launch.stream")
def text_as_a_stream():
    stream_handle("0")  # breaks
    stream_handle(0)  # keeps


@program("launch.stride")
def array_by_columns():
    kernel = runtime.load(FakeCompiled(signature(Pointer(f16))), device=FakeDevice())
    kernel.launch(1, FakeArray((4, 4), strides=(2, 8)))  # breaks
    kernel.launch(1, FakeArray((4, 4), strides=(8, 2)))  # keeps


@program("launch.threads")
def more_threads_than_its_registers_allow():
    device = FakeDevice(kernel=KernelLimits(384, 0))  # breaks
    device = FakeDevice(kernel=KernelLimits(512, 0))  # keeps
    runtime.load(FakeCompiled(signature(threads=512)), device=device)


@program("launch.not-compiled")
def kernel_that_was_not_compiled():
    kernel = signature()  # breaks
    kernel = FakeCompiled(signature())  # keeps
    runtime.load(kernel, device=FakeDevice())


@program("launch.timing")
def nothing_to_time():
    clock = Mock(milliseconds=Mock(return_value=1.0))
    runtime.time_launches({}, clock=clock)  # breaks
    runtime.time_launches({"kernel": list}, clock=clock)  # keeps
