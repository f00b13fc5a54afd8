"""Rings, roles, tile order and the epilogue."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.tiles.ring_rules import RING
from nvbackend.builder.tiles.stages import Walk
from nvbackend.layout import Layout
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.host import run_on_host
from tests.support.said import said


@pytest.mark.parametrize(("rows", "columns", "group"), [(16, 16, 8), (10, 3, 4), (1, 7, 8), (5, 5, 1)])
def test_the_tile_order_visits_every_tile_once_in_groups_of_rows(rows, columns, group):
    k = KernelBuilder(
        "order", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(i32)), Parameter("n", Scalar(i32))]
    )
    out, count = k.arguments
    with k.range(count) as tile:
        m, n = k.grouped(tile, rows, columns, group)
        out[tile] = m * 1000 + n
    found = np.full(rows * columns, -1, np.int32)
    run_on_host(k.finish(), found, rows * columns)
    visited = [(int(one) // 1000, int(one) % 1000) for one in found]
    expected = [
        (row, column)
        for first in range(0, rows, group)
        for column in range(columns)
        for row in range(first, min(first + group, rows))
    ]
    assert visited == expected


def ring(k, **options):
    layout = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
    return k.pipeline(options.pop("stages", 2), 1, a=layout, **options)


def test_a_ring_counts_its_bytes_and_arrivals():
    k = KernelBuilder("ring", "sm_90a", threads=256, cluster=2)
    made = ring(k, multicast=True)
    assert made.bytes == 64 * 64 * 2
    inits = [found.operands["count"] for found in k.machine.instructions() if found.opcode == "mbarrier.init"]
    assert inits == ["1", "1", "2", "2"]


@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_a_stage_is_given_back_by_one_thread_for_each_cta(consumers, cluster):
    """Of each consumer as many threads as CTAs get the multicast, all of them in its first warp."""
    k = KernelBuilder("ring", "sm_90a", threads=128 * (consumers + 1), cluster=cluster)
    layout = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
    made = k.pipeline(2, consumers, a=layout, multicast=cluster > 1)
    k.mbarrier.ready()
    with k.producer(40):
        made.finish()
    with k.consumers(128), made.drain():
        pass
    (release,) = [instr for instr in k.machine.instructions() if "guard" in instr.registers]
    assert (release.facts["threads"], release.facts["warps"]) == (consumers * cluster, consumers)


@pytest.mark.parametrize("use", ["steps", "fill", "drain", "finish"])
@pytest.mark.parametrize("between", [None, "fence", "warp"])
def test_a_ring_is_not_used_before_all_threads_see_its_barriers(use, between):
    k = KernelBuilder("ring", "sm_90a", threads=256)
    made = k.pipeline(2, **({} if use == "steps" else {"consumers": 1}), a=(f16, Layout((32, 8), (8, 1))))
    if between == "fence":
        k.fence.mbarrier_init()
    if between == "warp":
        k.warp.sync()
    used = {
        "steps": lambda: made.steps(4, lambda *_: None).__enter__(),
        "fill": lambda: made.fill().__enter__(),
        "drain": lambda: made.drain().__enter__(),
        "finish": made.finish,
    }
    if use == "drain":
        with k.producer(40):
            pass
    role = nullcontext() if use == "steps" else k.consumers(120) if use == "drain" else k.producer(40)
    with pytest.raises(nvb.DiagnosticError) as caught, role:
        used[use]()
    assert [each.rule_id for each in caught.value.diagnostics] == ["pipeline.not-ready"]
    assert f"ring.{use}" in caught.value.diagnostics[0].message


@pytest.mark.parametrize("stages", [0, -1])
def test_a_ring_without_stages_is_refused(stages):
    k = KernelBuilder("ring", "sm_90a", threads=256)
    with pytest.raises(nvb.DiagnosticError) as caught:
        ring(k, stages=stages)
    assert caught.value.diagnostics[0].rule is RING


@pytest.mark.parametrize("stages", [0, 1, 2, 3])
def test_a_ring_that_all_threads_fill_has_two_stages_at_least(stages):
    k = KernelBuilder("ring", "sm_80", threads=128)
    if stages >= 2:
        assert k.pipeline(stages, copies="cp.async", a=(f16, Layout((64, 64)))).stages == stages
        return
    with pytest.raises(nvb.DiagnosticError, match=rf"(?s)a ring of {stages} stage.*give it 2 at least"):
        k.pipeline(stages, copies="cp.async", a=(f16, Layout((64, 64))))


@pytest.mark.parametrize("tile", [(nvb.f16,), (1,), (nvb.f16, nvb.layout.make_layout(8), 3), (1, 2)])
def test_a_tile_is_an_element_type_and_a_layout(tile):
    k = KernelBuilder("ring", "sm_90a", threads=256)
    with pytest.raises(nvb.DiagnosticError, match=r"call\.argument.*k\.pipeline: a"):
        k.pipeline(3, a=tile)


def test_one_stage_can_not_be_held_back():
    k = KernelBuilder("ring", "sm_90a", threads=256)
    made = ring(k, stages=1)
    with pytest.raises(nvb.DiagnosticError, match=r"pipeline\.stages"), made.drain(in_flight=1):
        pass


@pytest.mark.parametrize("in_flight", [-1, 0.5, 2, float("nan")])
def test_a_ring_holds_back_no_stage_or_one(in_flight):
    k = KernelBuilder("ring", "sm_90a", threads=256)
    made = ring(k, stages=3)
    with pytest.raises(nvb.DiagnosticError, match=r"pipeline\.stages"), made.drain(in_flight=in_flight):
        pass


@pytest.mark.parametrize("in_flight", [0, 1])
def test_a_whole_number_is_one_however_it_is_written(in_flight):
    def drained(number):
        k = KernelBuilder("ring", "sm_90a", threads=256)
        made = ring(k, stages=3)
        k.mbarrier.ready()
        with made.drain(in_flight=number):
            pass
        return str(k.machine)

    assert drained(float(in_flight)) == drained(in_flight)
    assert drained(0) != drained(1)


def test_an_epilogue_for_a_type_it_can_not_store_is_refused():
    parameters = [Parameter("c", nvb.TensorMap(nvb.e2m1, box=(64, 32)))]
    k = KernelBuilder("epilogue", "sm_90a", threads=256, parameters=parameters)
    with pytest.raises(nvb.DiagnosticError, match=r"value\.operation"):
        k.tma_epilogue(k.arguments[0], 64, 1)


@pytest.mark.parametrize("registers", [20, 41, 264])
def test_a_register_budget_that_does_not_exist_is_refused(registers):
    k = KernelBuilder("roles", "sm_90a", threads=256)
    with pytest.raises(nvb.DiagnosticError) as caught, k.producer(registers=registers):
        pass
    assert str(registers) in said(caught.value.diagnostics[0])


def test_plain_sm_90_has_no_register_budget():
    k = KernelBuilder("roles", "sm_90", threads=256)
    with (
        pytest.raises(nvb.DiagnosticError, match=r"target\.feature|register-budget|setmaxnreg"),
        k.producer(registers=40),
    ):
        pass


@pytest.mark.parametrize("copies", ["", "TMA", "bulk"])
def test_copies_that_a_ring_does_not_have(copies):
    k = KernelBuilder("ring", "sm_90a", threads=256)
    with pytest.raises(nvb.DiagnosticError, match=r"instruction\.variant.*is not one of tma, cp\.async"):
        k.pipeline(2, 1, copies=copies, a=(f16, 64))


def test_registers_of_negative_strides_are_refused():
    k = KernelBuilder("registers", "sm_90a", threads=32)
    for stride, problem in (((-1,), "a stride is negative"), ((4, -1), "a stride is negative")):
        with pytest.raises(nvb.DiagnosticError, match=rf"tensor\.registers.*of f16 from element 0 .*{problem}"):
            k.register_tensor(f16, Layout((4,) * len(stride), stride))


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_the_stage_before_each_is_the_one_that_a_role_came_from(stages):
    k = KernelBuilder("before", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(i32))])
    walk = Walk(k, stages, k.mbarrier.array(stages, 1), 1)
    k.mbarrier.ready()
    with k.range(2 * stages) as step:
        k.arguments[0][2 * step] = walk.index
        k.arguments[0][2 * step + 1] = walk.before(walk.index.value)
        walk.advance()
    out = np.full(4 * stages, -1, np.int32)
    compiled = k.finish(check=False).compile(assemble=False)
    nvb.runtime.load(compiled, device="simulator").launch(1, out)
    visited = out[::2].tolist()
    assert visited == [*range(stages), *range(stages)]
    assert out[1::2].tolist() == [stages - 1, *visited[:-1]]
