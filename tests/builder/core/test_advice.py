"""Advice in the words of the program, that works when it is followed: one test a mistake, with its correction."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import Major, Pointer, SwizzleMode, TensorMap, f16, f32, f64, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import Layout
from nvbackend.signature import Parameter, Scalar
from nvbackend.tiled.copy_atom import universal_copy
from tests.support.said import said as said_of


def builder(cluster=1):
    types = {"m": Pointer[i32], "h": Pointer[f16], "d": Pointer[f64], "a": TensorMap(f16, box=(64, 64), swizzle=128)}
    parameters = [Parameter(name, kind) for name, kind in types.items()] + [Parameter("n", Scalar(i32))]
    return KernelBuilder("k", "sm_90a", threads=128, cluster=cluster, parameters=parameters)


def said(call, cluster=1):
    k = builder(cluster)
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(k, *k.arguments)
    (found,) = caught.value.diagnostics
    assert found.location is not None
    assert found.location.file == __file__
    return found


@pytest.mark.parametrize("call", ["thread_id", "block_id", "block_count"])
def test_an_axis_that_there_is_not(call) -> None:
    assert "'w' is not an axis; the axes are x, y, z" in said(lambda k, *_: getattr(k, call)("w")).message


def test_a_rank_without_a_cluster_asks_for_one() -> None:
    found = said(lambda k, m, h, d, a, n: k.cluster.map_shared_rank(k.shared(f32, 4), 1), cluster=1)
    assert "cluster=2" in (found.fix or "")


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (lambda x: x**2, "multiply, x * x"),
        (abs, "k.math.abs(x)"),
        (round, "rounds towards zero"),
        (len, "a parameter of its own"),
        (range, "with k.range(n) as i"),
    ],
)
def test_what_python_cannot_do_with_a_value(use, advice) -> None:
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, out: Pointer[i32], n: i32):
        out[0] = use(n)

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "value.number"
    assert advice in (found.fix or "")


def test_a_negative_sleep_is_not_a_long_one() -> None:
    assert "several times" in (said(lambda k, m, h, d, a, n: k.nanosleep(2_000_000)).fix or "")
    assert "count from 0" in (said(lambda k, m, h, d, a, n: k.nanosleep(-1)).fix or "")


def test_global_memory_is_not_in_a_peer() -> None:
    found = said(lambda k, m, h, d, a, n: k.cluster.map_shared_rank(m, 0), cluster=2)
    assert "which is not an address of shared memory" in found.message
    assert "global address of s32" in found.message


def test_a_box_goes_to_the_address_of_a_tile() -> None:
    layout = nvb.SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)

    def load(k, place):
        tile, full = k.shared_tile(layout), k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=layout.bytes)
            k.tma.load_box(place(tile), k.arguments[3], (0, 0), full)
        k.mbarrier.wait(full, 0)

    assert "tile.address" in said(lambda k, *_: load(k, lambda tile: tile.at(0, 8))).fix
    k = builder()
    load(k, lambda tile: tile.address)
    k.finish()


@pytest.mark.parametrize("use", ["x[0] = 1.0", "x[0]", "k.var(x)[0]"])
def test_a_scalar_is_not_memory(use) -> None:
    scope = {"nvb": nvb}
    text = f"def kernel(k, x: nvb.f32):\n    {use}\n"
    exec(compile(text, __file__, "exec"), scope)
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.kernel("sm_90a", threads=32)(scope["kernel"]).build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "value.type"
    assert "nvb.Pointer(nvb.f32)" in found.fix


@nvb.kernel("sm_90a", threads=32)
def scaled(k, x: Pointer[f32], *, factor=2.0, optimize=1.0):
    x[0] = x[0] * factor + optimize


def test_constants_are_given_by_name_or_together() -> None:
    named, together = scaled.build(factor=3.0), scaled.build(constants={"factor": 3.0})
    assert named.ir == together.ir != scaled.build().ir
    wanted = scaled.compile(constants={"factor": 3.0}, assemble=False).ptx
    assert scaled.compile(factor=3.0, assemble=False).ptx == wanted
    assert scaled.compile(assemble=False).ptx != wanted


def test_an_option_is_not_taken_for_a_constant_of_its_name() -> None:
    plain = scaled.compile(optimize=3, assemble=False).ptx
    assert scaled.compile(assemble=False).ptx == plain
    assert scaled.compile(constants={"optimize": 5.0}, assemble=False).ptx != plain


@pytest.mark.parametrize("call", [scaled.build, scaled.compile])
def test_a_constant_is_given_once(call) -> None:
    with pytest.raises(nvb.DiagnosticError, match="'factor' is given twice"):
        call(factor=3.0, constants={"factor": 4.0})


@pytest.mark.parametrize(
    ("call", "name"),
    [(scaled.compile, "scaled"), (lambda **more: scaled.build().compile(**more), "compile:")],
)
def test_an_option_that_there_is_not(call, name) -> None:
    with pytest.raises(nvb.DiagnosticError, match="'block'") as caught:
        call(block=3)
    text = said_of(*caught.value.diagnostics)
    assert name in text
    assert "compile_kernel" not in text
    assert "ptxas_level" in text


@pytest.mark.parametrize("given", [SwizzleMode.B64, "64", 64.0])
def test_a_swizzle_is_its_number(given) -> None:
    def made(swizzle):
        return KernelBuilder("k", "sm_90a", threads=32, parameters=[Parameter("a", TensorMap(f16, (8, 8), swizzle))])

    with pytest.raises(nvb.DiagnosticError, match=r"call\.argument.*swizzle must be int, not "):
        made(given)
    made(64).finish()


@pytest.mark.parametrize("expected", [None, 16])
def test_an_arrival_at_a_peer_takes_its_rank(expected) -> None:
    def arrive(k, of_peer):
        barrier = k.mbarrier.array(1, 129)
        k.mbarrier.ready()
        of_peer(k, barrier)

    found = said(lambda k, *_: arrive(k, lambda k, b: k.mbarrier.arrive(k.cluster.map_shared_rank(b, 1))), cluster=2)
    assert "k.mbarrier.arrive(barrier, rank=rank)" in found.fix
    k = builder(cluster=2)
    arrive(k, lambda k, b: k.mbarrier.arrive(b, rank=1, expect_tx=expected))


def test_a_copy_says_which_memory_it_takes() -> None:
    def copy(k, to, source):
        k.cp_async.copy(to, source, 4)

    found = said(lambda k, m, *_: copy(k, k.shared(i32, 4), k.shared(i32, 4)))
    assert "source of cp.async.ca.shared.global is an address of global memory, not <shared" in found.message
    found = said(lambda k, m, *_: copy(k, m, m))
    assert "destination of cp.async.ca.shared.global is an address of shared memory, not <global" in found.message
    assert "the destination comes first" in found.fix
    k = builder()
    copy(k, k.shared(i32, 4), k.arguments[0])


def test_a_relaxed_sync_is_told_to_release() -> None:
    def exchanged(**how):
        k = builder(cluster=2)
        own = k.shared(i32, 128)
        own[k.thread_id()] = 1
        k.cluster.sync(**how)
        k.arguments[0][k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]
        k.cluster.sync()
        return k.finish()

    with pytest.raises(nvb.DiagnosticError) as caught:
        exchanged(relaxed=True)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "cluster.missing-barrier"
    assert "leave out relaxed=True" in found.fix
    exchanged()


@pytest.mark.parametrize(
    ("use", "wanted"),
    [
        (lambda x: x[0:4], "pointer.load(4)"),
        (lambda x: x[:2], "pointer.load(2)"),
        (lambda x: x[4:8], "(pointer + 4).load(4)"),
        (lambda x: x[2:], "(pointer + 2).load(count)"),
        (lambda x: x.__setitem__(slice(0, 4), 1), "pointer.store(a, b, ...)"),
    ],
)
def test_several_elements_are_loaded_by_their_count(use, wanted) -> None:
    assert wanted in said(lambda k, m, *_: use(m)).fix


@pytest.mark.parametrize(
    "call",
    [
        lambda k, n: n + n.ir,
        lambda k, n: k.arguments[0][n.ir],
        lambda k, n: k.warp.shuffle(n.ir, "idx", 0),
        lambda k, n: k.warp.match("any", n.ir),
    ],
)
def test_a_register_of_llvmlite_is_no_value_yet(call) -> None:
    text = said_of(said(lambda k, m, h, d, a, n: call(k, n)))
    assert "k.value(" in text
    assert ".ir" in text


HALF = 0xFFFF0000


@pytest.mark.parametrize(
    "call",
    [
        lambda k, members: k.warp.sync(members),
        lambda k, members: k.warp.shuffle(k.thread_id(), "idx", 0, members=members),
        lambda k, members: k.warp.vote("any", k.lane_id() == 3, members=members),
        lambda k, members: k.warp.match("any", k.thread_id(), members=members),
        lambda k, members: k.warp.reduce("add", k.thread_id(), members=members),
    ],
)
def test_a_lane_that_comes_is_one_of_the_members(call) -> None:
    def halves(k, members):
        with k.if_(k.lane_id() < 16):
            call(k, members)

    found = said(lambda k, *_: halves(k, HALF))
    assert found.rule_id == "warp.members"
    assert "lane 0 executes it, and is not among the members 0xffff0000" in found.message
    assert said(lambda k, *_: call(k, ~HALF & 0xFFFFFFFF)).rule_id == "warp.members"
    k = builder()
    halves(k, ~HALF & 0xFFFFFFFF)
    call(k, 0xFFFFFFFF)
    k.finish()


@pytest.mark.parametrize("mask", [0b100, 0b101, 0b111, 0])
def test_a_mask_past_the_cluster_is_all_that_is_told(mask) -> None:
    """Which CTAs such a copy reaches is open, so nothing is said of their bytes."""

    def loaded(k, mask):
        layout = nvb.SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
        tile, full = k.shared_tile(layout), k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=layout.bytes)
            with k.if_(k.cluster.rank() == 0):
                k.tma.load_box(tile.address, k.arguments[3], (0, 0), full, multicast_mask=mask)
        k.mbarrier.wait(full, 0)
        k.cluster.sync()
        return k

    with pytest.raises(nvb.DiagnosticError) as caught:
        loaded(builder(2), mask).finish()
    assert [one.rule_id for one in caught.value.diagnostics] == ["tma.multicast-mask"]
    loaded(builder(2), 0b11).finish()


INSIDE = [
    lambda k, x: k.barrier.sync(),
    lambda k, x: k.thread_id(),
    lambda k, x: k.shared(i32, 4),
    lambda k, x: k.var(1),
    lambda k, x: k.mbarrier.array(1, 1),
    lambda k, x: k.if_(True).__enter__(),
    lambda k, x: x[0],
    lambda k, x: k.finish(),
]


@pytest.mark.parametrize("use", INSIDE)
def test_the_kernel_around_gets_nothing_of_the_one_inside(use) -> None:
    @nvb.kernel("sm_90a", threads=128)
    def outer(k, x: Pointer[i32], *, use=None):
        @nvb.kernel("sm_90a", threads=32)
        def inner(own, y: Pointer[i32]):
            y[own.thread_id()] = 1
            if use is not None:
                use(k, x)

        inner.build()
        x[k.thread_id()] = 2

    with pytest.raises(nvb.DiagnosticError) as caught:
        outer.build(use=use)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "kernel.outer"
    assert "kernel outer" in found.message
    assert "kernel inner" in found.message
    assert found.location.file == __file__
    outer.build()


def test_builders_side_by_side_are_both_written_to() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def first(k, x: Pointer[i32]):
        other = builder()
        other.arguments[0][other.thread_id()] = 3
        x[k.thread_id()] = 1
        stores.append(other.finish().ir.count("store i32 3"))

    stores: list[int] = []
    assert first.build().ir.count("store i32 1") == 1
    assert stores == [1]


def test_a_copy_of_an_unknown_stride_is_told_of_the_promise() -> None:
    def copy(k, m, h, d, a, n, **promise):
        part = k.tensor(h, Layout(((8, 1), 8), ((1, 0), n)), **promise)
        registers = k.register_tensor(f16, ((8, 1), 8))
        k.copy(universal_copy(f16, 128), part, registers)

    assert "multiple_of=8" in said(copy).fix
    k = builder()
    copy(k, *k.arguments, multiple_of=8)
    k.finish()


@pytest.mark.parametrize(("stages", "in_flight"), [(1, 1), (3, 2), (4, -1), (2, 5)])
def test_a_drain_says_how_many_may_stay_in_flight(stages, in_flight) -> None:
    """More stages would not help where two groups are to stay."""

    def drained(number):
        k = KernelBuilder("k", "sm_90a", threads=256)
        ring = k.pipeline(stages, 1, a=nvb.SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64))
        k.mbarrier.ready()
        with ring.drain(in_flight=number):
            pass

    with pytest.raises(nvb.DiagnosticError) as caught:
        drained(in_flight)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "pipeline.stages"
    assert found.message.startswith(f"a ring of {stages} stage")
    assert f"in_flight={in_flight}" in found.message
    most = int(re.search(r"at most (\d)", found.message)[1])
    assert f"in_flight={' or '.join(map(str, range(most + 1)))}" in found.fix
    assert ("make the ring" in found.fix) is (stages == 1)
    drained(most)


def test_a_kind_is_named_as_the_call_takes_it() -> None:
    target, request = nvb.Target.parse("sm_120a"), nvb.mma.sync("m16n8k32", nvb.e2m1, nvb.e2m1, f32)
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.mma.select(request, target)
    kinds = re.findall(r'kind="(\w+)"', caught.value.diagnostics[0].fix)
    assert "f8f6f4" in kinds
    assert nvb.mma.select(nvb.mma.sync("m16n8k32", nvb.e2m1, nvb.e2m1, f32, kind=kinds[0]), target)
