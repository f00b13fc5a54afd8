"""Writes of one call do not conflict where they leave the same bytes, also where the call is several instructions."""

from typing import Annotated

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, i32

ROWS, PANEL = 8, 64
Target = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(ROWS, PANEL))]


@nvb.kernel("sm_90a", threads=32)
def overlapping(k: nvb.KernelBuilder, to: Target, values: nvb.Pointer[f16]) -> None:
    """Each CTA stores two panels of its value, and the first panel of the second CTA is the last one of the first."""
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, ROWS, 2 * PANEL))
    value = values[k.block_id()]
    with k.range(k.thread_id(), ROWS * 2 * PANEL, 32) as index:
        tile.at(index // (2 * PANEL), index % (2 * PANEL)).store(value)
    k.fence.proxy_async()
    k.barrier.sync()
    with k.one_thread():
        k.tma.store(to, (0, k.block_id() * PANEL), tile)
        k.tma.commit_group()
        k.tma.wait_group()


@nvb.kernel("sm_90a", threads=32)
def unrolled(k: nvb.KernelBuilder, to: nvb.Pointer[f16], values: nvb.Pointer[f16]) -> None:
    """The stores of one line of Python: CTA 1 writes by the first what CTA 0 writes by the second."""
    value = values[k.block_id()]
    for part in range(2):
        to[(k.block_id() + part) * 32 + k.thread_id()] = value


@nvb.kernel("sm_90a", threads=32)
def in_rounds(k: nvb.KernelBuilder, to: nvb.Pointer[f16], values: nvb.Pointer[f16], rounds: i32) -> None:
    """The first store of CTA 1 comes again after the second one of CTA 0, which is an instruction that came later."""
    value = values[k.block_id()]
    with k.range(rounds):
        for part in range(2):
            to[(k.block_id() + part) * 32 + k.thread_id()] = value
        k.barrier.sync()


@nvb.kernel("sm_90a", threads=32)
def of_two_lines(k: nvb.KernelBuilder, to: nvb.Pointer[f16], values: nvb.Pointer[f16]) -> None:
    """The same stores by two lines."""
    value = values[k.block_id()]
    to[k.block_id() * 32 + k.thread_id()] = value
    to[k.block_id() * 32 + 32 + k.thread_id()] = value


@nvb.kernel("sm_90a", threads=64)
def one_lane(k: nvb.KernelBuilder, to: nvb.Pointer[i32], more: i32) -> None:
    """Warp 1 writes after warp 0, of which one lane alone tells of the writes of all."""
    box, full = k.shared(i32, 32), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    lane, warp = k.lane_id(), k.warp_id()
    with k.if_(warp == 1):
        k.mbarrier.wait(full, 0)
    box[lane] = 7 + warp * more
    with k.if_((warp == 0) & (lane == 0)):
        k.mbarrier.arrive(full)
    k.barrier.sync()
    to[k.thread_id()] = box[lane]


def test_what_one_lane_tells_of_may_be_written_twice():
    to = np.zeros(64, np.int32)
    loaded = nvb.runtime.load(one_lane.compile(assemble=False, check=False), device="simulator")
    loaded.launch(1, to, 0)
    assert (to == 7).all()
    with pytest.raises(nvb.DiagnosticError) as refused:
        loaded.launch(1, to, 1)
    assert {one.rule_id for one in refused.value.diagnostics} == {"simulator.missing-warp-sync"}


def stored(kernel: nvb.KernelDefinition, shape: tuple[int, ...], values: list[float]) -> np.ndarray:
    to = np.zeros(shape, np.float16)
    loaded = nvb.runtime.load(kernel.compile(assemble=False), device="simulator")
    loaded.launch(2, to, np.array(values, np.float16))
    return to


@pytest.mark.parametrize(("kernel", "shape"), [(overlapping, (ROWS, 3 * PANEL)), (unrolled, (96,))], ids=["TMA", ""])
def test_equal_bytes_may_be_written_twice(kernel, shape):
    assert (stored(kernel, shape, [2.0, 2.0]) == 2.0).all()


def test_a_write_before_and_after_another_of_its_call():
    to = np.zeros(96, np.float16)
    loaded = nvb.runtime.load(in_rounds.compile(assemble=False), device="simulator")
    loaded.launch(2, to, np.array([2.0, 2.0], np.float16), 2)
    assert (to == 2.0).all()


@pytest.mark.parametrize(
    ("kernel", "shape", "rule"),
    [(overlapping, (ROWS, 3 * PANEL), "simulator.write-race"), (unrolled, (96,), "simulator.race")],
    ids=["TMA", ""],
)
def test_other_bytes_are_a_race(kernel, shape, rule):
    with pytest.raises(nvb.DiagnosticError) as refused:
        stored(kernel, shape, [2.0, 3.0])
    assert {one.rule_id for one in refused.value.diagnostics} == {rule}


def test_calls_of_two_lines_are_two():
    with pytest.raises(nvb.DiagnosticError) as refused:
        stored(of_two_lines, (96,), [2.0, 2.0])
    assert {one.rule_id for one in refused.value.diagnostics} == {"simulator.race"}
