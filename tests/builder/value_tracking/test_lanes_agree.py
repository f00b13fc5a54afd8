"""Which lanes certainly have one value after a shuffle, and which variables a value is computed from: by reasoning."""

from __future__ import annotations

import itertools

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend.builder.value_tracking.expressions.provenance import variables
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.signature import Parameter, Pointer, Scalar

ALL, HALF = 0xFFFFFFFF, 0xFFFF


def builder(cluster: int = 1) -> nvb.KernelBuilder:
    parameters = [Parameter("p", Pointer(nvb.s32)), Parameter("n", Scalar(nvb.s32))]
    return nvb.KernelBuilder("lanes", "sm_90a", threads=128, parameters=parameters, cluster=cluster)


LANES = {
    "a number": (lambda k, n: 3, True),
    "an argument": (lambda k, n: n & 31, True),
    "the warp's": (lambda k, n: k.warp_id(), True),
    "each its own": (lambda k, n: 31 - k.lane_id(), False),
}


@pytest.mark.parametrize("members", [ALL, HALF])
@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("mode", ["idx", "up", "down", "bfly"])
@pytest.mark.parametrize("lane", LANES)
def test_all_lanes_have_what_one_lane_sends_to_all(lane: str, mode: str, width: int, members: int) -> None:
    of, is_one = LANES[lane]
    k = builder()
    p, n = k.arguments
    other = of(k, n)
    named = members if members == ALL else p[0].bitcast(nvb.u32)  # members that nobody knows
    unknown = k.warp.shuffle(p[k.thread_id()], mode, other, width=width, members=named)
    one = mode == "idx" and width == 32 and is_one and members == ALL
    assert (k.core.execution.known(unknown.ir).certain >= Scope.WARP) == one
    of_warp = k.warp.shuffle(p[k.thread_id()], "idx", 0)  # which lanes exchange in vain
    again = k.warp.shuffle(of_warp, mode, other, width=width, members=named)
    assert k.core.execution.known(again.ir).certain == Scope.WARP
    same = k.warp.shuffle(n, mode, other, width=width, members=named)
    assert k.core.execution.known(same.ir).certain == k.core.execution.known(n.ir).certain >= Scope.CTA


def test_the_variables_of_a_value() -> None:
    k = builder()
    p, n = k.arguments
    first, second = k.var(0, name="first"), k.var(1, name="second")
    names = [one._storage.slots[0].name for one in (first, second)]
    with k.range(n):  # in which both are read anew
        pairs = (
            (first + 1, {names[0]}),
            (first * n + second, set(names)),
            (n + k.thread_id(), set()),
            (k.warp.shuffle(first.value, "idx", 0), {names[0]}),
            (first + p[0], None),
            (first + k.warp.reduce("add", n), None),
            (first + k.warp.active_lanes().bitcast(nvb.s32), None),
        )
        chain = first.value
        for _ in range(100):
            chain = chain * n
        assert [variables(value.ir) for value, _ in pairs] == [
            None if found is None else frozenset(found) for _, found in pairs
        ]
        assert variables(chain.ir) is None
        first += 1
        second += 1


SCOPES = {
    **{f"{name}.{axis}": Scope.GRID for name in ("nctaid", "nclusterid", "cluster_nctaid") for axis in "yz"},
    **{f"{name}.{axis}": Scope.CTA for name in ("ctaid", "cluster_ctaid") for axis in "yz"},
    **{f"clusterid.{axis}": Scope.CLUSTER for axis in "xyz"},
    **dict.fromkeys(("cluster_ctarank", "cluster_ctaid.x", "ctaid.x"), Scope.CTA),
    **dict.fromkeys(("cluster_nctarank", "cluster_nctaid.x", "nctaid.x"), Scope.GRID),
    **{f"ntid.{axis}": Scope.GRID for axis in "xyz"},
}
"""The threads that read one number from a special register (PTX ISA 10); how large clusters are is one for a grid."""
PARTED = {
    "tid.x": Scope.THREAD,
    "tid.y": Scope.THREAD,
    "warpid": Scope.WARP,
    "smid": Scope.CTA,
    **dict.fromkeys(("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"), Scope.WARP),
    **{f"pm{number}{bits}": Scope.WARP for number in range(8) for bits in ("", "_64")},
}
"""Those that programs part threads by; nothing is certain of them. Warps read the time one after another."""


@pytest.mark.parametrize("axes", [1, 3])
@pytest.mark.parametrize("attached", [True, False])
def test_special_registers_are_one_number_over_their_scope(attached: bool, axes: int) -> None:
    """Of an attached function no cluster is known, nor, with indices along several axes, the shape of the CTA.

    A kernel's own cluster of two lies along x: along the other axes its ranks are 0 everywhere.
    """
    if attached:
        module = ir.Module()
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "f")
        k = nvb.attach(ir.IRBuilder(function.append_basic_block("entry")), "sm_90a", threads=256)
    else:
        k = nvb.KernelBuilder("registers", "sm_90a", threads=256, cluster=2)
    if axes > 1:
        k.special_register("tid.y")
    flat = {} if attached else {f"cluster_ctaid.{axis}": Scope.GRID for axis in "yz"}
    for name, scope in {**SCOPES, **flat}.items():
        known = k.core.execution.known(k.special_register(name).ir)
        assert (known.certain, known.apparent) == (scope, scope), name
    for name, scope in PARTED.items():
        known = k.core.execution.known(k.special_register(name).ir)
        if not known.is_whole:
            assert (known.certain, known.apparent) == (Scope.THREAD, scope), name


@pytest.mark.parametrize("cluster", [1, (2, 2, 1)])
@pytest.mark.parametrize("threads", [256, (256, 1, 1), (64, 2, 2)])
@pytest.mark.parametrize("lowering", ["intrinsic", "asm"])
@pytest.mark.parametrize("asked", [(), ("tid.x",), ("tid.y",), ("tid.z",), ("tid.y", "tid.z"), ("ntid.y",)])
def test_an_index_along_another_axis_means_a_shape_that_is_not_known(asked, lowering, threads, cluster) -> None:
    """Where no shape is given: 256 threads may lie along x alone, or not, of which y and z tell. A given one stays.

    How many threads and CTAs there are is known whatever the shape, and so is a warp's lane.
    """
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(builder, "sm_90a", threads=threads, cluster=cluster, lowering=lowering)
    thread, lane = k.special_register("tid.x"), k.special_register("laneid")
    for name in asked:
        k.special_register(name)
    is_known = isinstance(threads, tuple) or not {"tid.y", "tid.z"} & {*asked}
    shape = threads if isinstance(threads, tuple) else (256, 1, 1)
    execution = k.core.execution
    for _ in range(2):
        assert (execution.cta.shape == shape) if is_known else (execution.cta.shape is None)
        assert execution.cta.threads == 256
        assert execution.cta.cluster_shape == ((1, 1, 1) if cluster == 1 else cluster)
        if lowering == "intrinsic":
            assert execution.numbers(lane.ir) == tuple(index % 32 for index in range(256))
            along = [index % shape[0] for index in range(256)]
            assert execution.numbers(thread.ir) == (tuple(along) if is_known else None)


APPARENT = {
    "parameter": (Scope.GRID, lambda k: k.arguments[1]),
    "of a CTA": (Scope.CTA, lambda k: k.special_register("ctaid.y").bitcast(nvb.s32)),
    "of an SM": (Scope.CTA, lambda k: k.special_register("smid").bitcast(nvb.s32)),
    "of a warp": (Scope.WARP, lambda k: k.special_register("warpid").bitcast(nvb.s32)),
    "of a thread": (Scope.THREAD, lambda k: (k.thread_id() < k.arguments[0][0]).to(nvb.s32)),
}
"""Values of which no thread's number is known, and how far nothing shows that they differ."""


def apparent(k: nvb.KernelBuilder, value: nvb.Value) -> Scope:
    return k.core.execution.known(value.ir).apparent


@pytest.mark.parametrize("lane", APPARENT)
@pytest.mark.parametrize("value", APPARENT)
def test_what_is_shuffled_differs_where_a_lane_or_a_value_does(value: str, lane: str) -> None:
    """All lanes that ask one lane have what it has; else as many threads agree as on all that it is made of."""
    k = builder()
    (values, sent), (lanes, asked) = ((scope, of(k)) for scope, of in (APPARENT[value], APPARENT[lane]))
    assert (apparent(k, sent), apparent(k, asked)) == (values, lanes)
    for mode, width in itertools.product(("idx", "up", "down", "bfly"), (32, 8)):
        expected = min(values, lanes)
        if mode == "idx" and width == 32 and lanes >= Scope.WARP:
            expected = max(expected, Scope.WARP)
        shuffled, valid = k.warp.shuffle(sent, mode, asked, width=width, in_range=True)
        assert {apparent(k, shuffled), apparent(k, valid)} == {expected}, (mode, width)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("value", APPARENT)
def test_what_all_lanes_get_is_one_for_the_warp(value: str, whole: bool) -> None:
    """Of votes and sums; what matches each lane's own number is its own. Certain where all of the 32 are members."""
    k = builder()
    scope, of = APPARENT[value]
    sent, members = of(k), ALL if whole else k.arguments[0][0].bitcast(nvb.u32)
    sure = k.core.execution.known(sent.ir).certain
    results = {mode: k.warp.vote(mode, sent > 0, members=members) for mode in ("any", "all", "uni", "ballot")}
    results |= {name: k.warp.reduce(name, sent, members=members) for name in ("add", "min", "max", "xor")}
    results |= {f"match {mode}": k.warp.match(mode, sent, members=members) for mode in ("any", "all")}
    for name, result in results.items():
        known = k.core.execution.known(result.ir)
        expected = scope if name == "match any" else max(scope, Scope.WARP)
        certain = Scope.THREAD if not whole else sure if name == "match any" else max(sure, Scope.WARP)
        assert (known.apparent, known.certain) == (expected, certain), name


@pytest.mark.parametrize("rank", APPARENT)
@pytest.mark.parametrize("place", APPARENT)
def test_a_mapped_address_is_one_where_both_are(place: str, rank: str) -> None:
    k = builder(cluster=2)
    words = k.shared(nvb.u32, 64)
    index, peer = APPARENT[place][1](k), APPARENT[rank][1](k)
    mapped = k.cluster.map_shared_rank(words + index % 64, peer % 2)
    known = k.core.execution.known(mapped.pointer())
    scopes = [k.core.execution.known((one + 0).ir) for one in (index, peer)]
    assert known.apparent == min(APPARENT[place][0], APPARENT[rank][0])
    assert known.certain == min(one.certain for one in scopes)
