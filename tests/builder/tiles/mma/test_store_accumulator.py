"""An accumulator stored from its registers: every address, run on this machine thread by thread.

Which element a register holds is written down here a second time, from the figures of PTX ISA 9.7.15.5.1.1.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import Layout
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap
from tests.support.host import run_on_host

N = 24
ROWS = 64
THREADS = (0, 1, 6, 31, 32, 77, 127)


def builder(element=f32, align=16):
    parameters = [Parameter("out", Pointer(element, align)), Parameter("stride", Scalar(i32))]
    parameters += [Parameter("thread", Scalar(i32)), Parameter("tensor", TensorMap(f16, (64, 64)))]
    k = KernelBuilder("store", "sm_90a", threads=128, parameters=parameters)
    return k, *k.arguments


def place(thread, index):
    """Row and column of element `index` of a thread."""
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (index // 2 % 2)
    return row, 8 * (index // 4) + 2 * (thread % 4) + index % 2


@pytest.mark.parametrize("stride", [N, N + 10])
@pytest.mark.parametrize("known", [True, False], ids=["constant stride", "run-time stride"])
@pytest.mark.parametrize("element", [f32, i32, f16])
def test_every_element_arrives_at_its_place_and_nothing_else(element, known, stride):
    parameters = [
        Parameter("out", Pointer(element)),
        Parameter("stride", Scalar(i32)),
        Parameter("thread", Scalar(i32)),
    ]
    k = KernelBuilder("store", "sm_90a", threads=128, parameters=parameters)
    out, given, thread = k.arguments
    acc = k.wgmma.accumulator(N, element)
    numbers = [thread * (N // 2) + index + 1 for index in range(N // 2)]
    if element is f16:
        acc.set([(low | (high << 16)).bitcast(u32) for low, high in zip(numbers[::2], numbers[1::2], strict=True)])
    else:
        acc.set([number.to(element) for number in numbers])
    k.store_accumulator(acc, out, stride if known else given)
    finished = k.finish()
    tid = "llvm.nvvm.read.ptx.sreg.tid.x"
    text = finished.ir.replace(f'call i32 @"{tid}"()', 'add i32 0, %"thread"')
    assert text != finished.ir and text.count(tid) == 1
    image = np.zeros((ROWS + 1, stride), np.uint16 if element is f16 else element.numpy_dtype())
    for number in THREADS:
        run_on_host(dataclasses.replace(finished, ir=text), image, stride, number)
    expected = np.zeros_like(image)
    for number in THREADS:
        for index in range(N // 2):
            expected[place(number, index)] = number * (N // 2) + index + 1
    assert np.array_equal(image, expected)


MISUSES = {
    "another type": (f16, lambda k, acc, out, tensor: k.store_accumulator(acc, out, N), "accumulator.store"),
    "shared memory": (
        f32,
        lambda k, acc, out, tensor: k.store_accumulator(acc, k.shared(f32, 64 * N), N),
        "accumulator.store",
    ),
    "odd stride": (f32, lambda k, acc, out, tensor: k.store_accumulator(acc, out, N + 1), "accumulator.stride"),
    "short alignment": (f32, lambda k, acc, out, tensor: k.store_accumulator(acc, out + 1, N), "memory.alignment"),
    "epilogue of another width": (
        f32,
        lambda k, acc, out, tensor: k.tma_epilogue(tensor, 64, 1).reserve((0, 0), 0).store(acc),
        "epilogue.accumulator",
    ),
    "epilogue with three coordinates": (
        f32,
        lambda k, acc, out, tensor: k.tma_epilogue(tensor, 64, 1).reserve((0, 0, 0), 0),
        "tma.place",
    ),
}


@pytest.mark.parametrize(("element", "broken", "rule"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_a_diagnostic_at_the_line(element, broken, rule):
    k, out, _, _, tensor = builder(element)
    with pytest.raises(nvb.DiagnosticError) as caught:
        broken(k, k.wgmma.accumulator(N), out, tensor)
    (found,) = caught.value.diagnostics
    assert found.rule_id == rule
    assert found.location is not None and found.location.file == __file__


def test_an_accumulator_in_flight_is_not_stored():
    k, out, *_ = builder()
    layout = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
    a, b = k.shared_tile(layout), k.shared_tile(layout)
    acc = k.wgmma.accumulator(64)
    with k.wgmma.group(in_flight=1):
        k.wgmma.mma_async(acc, a, b, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    k.store_accumulator(acc, out, 64)
    k.wgmma.wait_group(0)
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.finish()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "wgmma.read-in-flight"
    assert found.location is not None and found.location.source == "k.store_accumulator(acc, out, 64)"


@pytest.mark.parametrize("number", [3, -0.5])
def test_fill_gives_both_halves_of_a_register_the_number(number):
    k, out, *_ = builder(f16)
    acc = k.wgmma.accumulator(N, f16)
    acc.fill(number)
    k.store_accumulator(acc, out, N)
    bits = int(np.float16(number).view(np.uint16))
    text = k.finish().compile().ptx
    assert f"{bits << 16 | bits}" in text or f"{(bits << 16 | bits) - 2**32}" in text


def test_fill_takes_no_packed_register_for_an_element():
    k, *_ = builder(f16)
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.wgmma.accumulator(N, f16).fill(k.const(0x3C003C00, u32))
    assert caught.value.diagnostics[0].rule_id == "value.type"


@pytest.mark.parametrize("call", ["store", "axpby"])
@pytest.mark.parametrize("element", [f32, f16])
def test_pairs_that_n_parts_are_stored_one_by_one(call, element):
    """Element 2 * q + r of N is column q + 16 * r, so no two neighbours of a thread are neighbours in memory."""
    n, written = 32, np.full((ROWS, 32), -1, np.float32 if element is f32 else np.float16)
    numbers = np.arange(ROWS * n).reshape(128, n // 2) % 2039  # halves hold them

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, table: nvb.Pointer[f32], out: nvb.Pointer[element]):
        request = nvb.wgmma.mma_async(f"m64n{n}k16", f16, f16, element)
        mma = k.tiled_mma(request, permutation=(None, Layout((2, n // 2), (n // 2, 1))))
        acc = mma.accumulators()
        own = [table[k.thread_id() * (n // 2) + index].to(element) for index in range(n // 2)]
        if element is f16:
            halves = [number.bitcast(nvb.u16).to(u32) for number in own]
            own = [low | (high << 16) for low, high in zip(halves[::2], halves[1::2], strict=True)]
        acc[0, 0].set(own)
        if call == "store":
            mma.store(acc, out, n)
        else:
            mma.axpby(1.0, acc, 0.0, out, n)

    loaded = nvb.runtime.load(kernel.compile(assemble=False), device="simulator")
    loaded.launch(1, numbers.astype(np.float32).reshape(-1), written.reshape(-1))
    expected = np.full_like(written, -2)
    for thread, index in np.ndindex(numbers.shape):
        row, column = place(thread, index)
        expected[row, column // 2 + n // 2 * (column % 2)] = numbers[thread, index]
    assert np.array_equal(written, expected)
