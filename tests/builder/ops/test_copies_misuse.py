"""Copies and mbarriers given what is none, and things of another kernel in every call that takes one."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap
from tests.support.barriers import barrier_of_somebody
from tests.support.said import said

LAYOUT = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
REQUEST = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


def builder(name="copies", box=(64, 64)):
    parameters = [Parameter("out", Pointer(i32)), Parameter("a", Scalar(i32)), Parameter("t", TensorMap(f16, box))]
    k = KernelBuilder(name, "sm_90a", threads=128, parameters=parameters)
    return k, *k.arguments


def load(k, t, place=(0, 0), layout=LAYOUT, barrier=None):
    tile = k.shared_tile(layout)
    with k.one_thread():
        k.tma.load(tile, t, place, barrier or barrier_of_somebody(k))


MISUSES = {
    "mbarrier in global memory": (lambda k, out, a, t: k.mbarrier.arrive(out), "mbarrier.address", "global address"),
    "mbarrier at an odd place": (
        lambda k, out, a, t: k.mbarrier.wait(k.shared(f32, 4, align=4) + 1, 0),
        "mbarrier.address",
        "multiple of 8",
    ),
    "copy on what is no mbarrier": (
        lambda k, out, a, t: load(k, t, barrier=out),
        "mbarrier.address",
        "k.mbarrier.array",
    ),
    "three coordinates": (lambda k, out, a, t: load(k, t, (0, 0, 0)), "tma.place", "2 dimensions"),
    "one coordinate": (lambda k, out, a, t: load(k, t, (0,)), "tma.place", "1 coordinate for"),
    "a float for an index": (lambda k, out, a, t: out[a.to(f32)], "value.operation", "index with integers"),
    "pending below nothing": (lambda k, out, a, t: k.tma.wait_group(-1), "tma.pending", "-1"),
}


@pytest.mark.parametrize(("broken", "rule", "says"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_a_diagnostic_at_the_line(broken, rule, says):
    with pytest.raises(nvb.DiagnosticError) as caught:
        broken(*builder())
    (found,) = caught.value.diagnostics
    assert found.rule_id == rule
    assert says in said(found)
    assert found.location is not None and found.location.file == __file__


def test_the_box_that_the_fix_names_is_one():
    """A box has at most 256 elements a dimension: a tile of more rows takes several."""
    layout = SmemLayout(Major.K, SwizzleMode.B128, f16, 512, 64)
    k, _, _, t = builder(box=(64, 32))
    with pytest.raises(nvb.DiagnosticError) as caught:
        load(k, t, layout=layout)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "tma.box"
    k, _, _, t = builder(box=found.values["wanted"])
    load(k, t, layout=layout)
    assert str(k.finish().machine).count("cp.async.bulk.tensor") == 2


def multiply(k, a, b, acc):
    with k.wgmma.group():
        k.wgmma.mma_async(acc, a, b, REQUEST)


FOREIGN = {
    "barrier": lambda k, other: k.mbarrier.arrive(other.mbarrier.array(1, 1)),
    "tensor map": lambda k, other: k.tma.prefetch_maps(other.arguments[2]),
    "tensor map of a copy": lambda k, other: load(k, other.arguments[2]),
    "tile of a copy": lambda k, other: k.tma.load(
        other.shared_tile(LAYOUT), k.arguments[2], (0, 0), k.mbarrier.array(1, 1)
    ),
    "accumulator": lambda k, other: multiply(
        k, k.shared_tile(LAYOUT), k.shared_tile(LAYOUT), other.wgmma.accumulator(64)
    ),
    "tile": lambda k, other: multiply(k, other.shared_tile(LAYOUT), k.shared_tile(LAYOUT), k.wgmma.accumulator(64)),
    "index": lambda k, other: k.arguments[0].__setitem__(other.arguments[1], 0),
    "variable": lambda k, other: k.if_(other.var(1) > 0).__enter__(),
}


@pytest.mark.parametrize("broken", FOREIGN.values(), ids=FOREIGN)
def test_nothing_of_another_kernel_is_taken(broken):
    k, other = builder()[0], builder("other")[0]
    with pytest.raises(nvb.DiagnosticError) as caught:
        broken(k, other)
    assert {one.rule_id for one in caught.value.diagnostics} == {"value.kernel"}
