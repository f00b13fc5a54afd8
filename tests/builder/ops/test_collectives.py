"""Collectives: the lanes that take part, the segments there are, and CTAs of one warp or several, against NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import KernelBuilder, f32, i32, s32, s64, u32

HALF = 0xFFFF
OF_SEGMENTS: dict[str, Callable[..., Any]] = {
    "reduce": lambda warp, x, **how: warp.reduce("mul", x, **how),
    "reduce by a function": lambda warp, x, **how: warp.reduce(lambda a, b: a + b, x, **how),
    "redux": lambda warp, x, **how: warp.reduce("add", x.to(s32), **how),
    "scan": lambda warp, x, **how: warp.scan("add", x, **how),
    "exclusive scan": lambda warp, x, **how: warp.scan("add", x, exclusive=True, **how),
    "argmax": lambda warp, x, **how: warp.argmax(x, x.to(i32), **how),
    "argmin": lambda warp, x, **how: warp.argmin(x, x.to(i32), **how),
    "shuffle": lambda warp, x, **how: warp.shuffle(x, "down", 1, **how),
    "broadcast": lambda warp, x, **how: warp.broadcast(x, 0, **how),
}
OF_LANES: dict[str, Callable[..., Any]] = {
    "vote": lambda warp, x, **how: warp.vote("any", x > 0, **how),
    "ballot": lambda warp, x, **how: warp.ballot(x > 0, **how),
    "match": lambda warp, x, **how: warp.match("any", x.to(u32), **how),
    "sync": lambda warp, _, **how: warp.sync(**how),
}


def _kernel(body: Callable[[KernelBuilder, Any], object]) -> KernelBuilder:
    k = KernelBuilder("lanes", "sm_90a", threads=32, parameters=[nvb.Parameter("x", nvb.Pointer(f32))])
    body(k, k.arguments[0])
    return k


@pytest.mark.parametrize("call", [*OF_SEGMENTS, *OF_LANES])
def test_every_instruction_of_a_call_names_its_members(call: str) -> None:
    def body(k: KernelBuilder, x: Any) -> None:
        how = {"width": 16} if call in OF_SEGMENTS and call != "redux" else {}
        with k.if_(k.thread_id() < 16):
            made = {**OF_SEGMENTS, **OF_LANES}[call](k.warp, x[k.thread_id()], members=HALF, **how)
            for value in made if isinstance(made, tuple) else [made] if made is not None else []:
                x[k.thread_id()] = value.to(f32)

    finished = _kernel(body).finish(check=False)
    masks = re.findall(r"(?:shfl|vote|match|bar\.warp)\S*\.sync.*\s(-?\d+);", finished.compile(assemble=False).ptx)
    masks += re.findall(r"redux\.sync.*i32 (-?\d+)\)", finished.ir)  # a register in PTX
    assert masks
    assert set(masks) == {str(HALF)}


@pytest.mark.parametrize("call", list(OF_SEGMENTS))
@pytest.mark.parametrize("width", [0, -8, 3, 33, 64])
def test_a_segment_is_a_power_of_two_of_lanes(call: str, width: int) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        _kernel(lambda k, x: OF_SEGMENTS[call](k.warp, x[k.thread_id()], width=width))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "shuffle.lanes"
    assert f"segments of {width} lanes" in diagnostic.message


@pytest.mark.parametrize("threads", [32, 96])
def test_a_cta_is_reduced_and_scanned(threads: int) -> None:
    @nvb.kernel("sm_90a", threads=threads)
    def combined(k, x: nvb.Pointer[s64], out: nvb.Pointer[s64]):
        at = k.thread_id()

        def other(a: Any, b: Any) -> Any:  # associative, and 3 changes nothing
            return a + b - 3

        made = [
            k.cta.reduce("add", x[at]),
            k.cta.scan("add", x[at]),
            k.cta.scan("max", x[at], exclusive=True),
            k.cta.scan(other, x[at], exclusive=True, initial=100),
            k.cta.scan(other, x[at]),
            k.cta.argmin(x[at])[1].to(s64),
            k.cta.argmax(x[at])[0],
            k.warp.argmax(x[at], at)[1].to(s64),
        ]
        for place, value in enumerate(made):
            out[place * threads + at] = value

    x = np.random.default_rng(threads).integers(-50, 50, threads)
    x[-1] = -60
    got = np.zeros((8, threads), np.int64)
    nvb.runtime.load(combined.compile(assemble=False), device="simulator").launch(1, x, got)
    sums = np.cumsum(x)
    highest = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(x)[:-1]])
    moved = np.concatenate([[100], 100 + np.cumsum(x - 3)[:-1]])
    expected = [np.full(threads, sums[-1]), sums, highest, moved, sums - 3 * np.arange(threads)]
    first = np.arange(0, threads, 32) + x.reshape(-1, 32).argmax(1)
    expected += [np.full(threads, threads - 1), np.full(threads, x.max()), first.repeat(32)]
    assert np.array_equal(got, np.array(expected))


@pytest.mark.parametrize("element", [nvb.u8, nvb.f16, s32, nvb.f64], ids=str)
@pytest.mark.parametrize("warps", [2, 7, 32])
def test_a_cell_of_each_warp_is_stored_once_and_read_by_all(element: nvb.ElementType, warps: int) -> None:
    parameters = [nvb.Parameter(name, nvb.Pointer(element)) for name in ("x", "out")]
    k: Any = KernelBuilder("added", "sm_90a", threads=32 * warps, parameters=parameters)
    k.arguments[1][k.thread_id()] = k.cta.reduce("add", k.arguments[0][k.thread_id()])
    dtype = {nvb.u8: np.uint8, nvb.f16: np.float16, s32: np.int32, nvb.f64: np.float64}[element]
    x = np.random.default_rng(warps).integers(0, 2, 32 * warps).astype(dtype)
    got = np.zeros_like(x)
    loaded = nvb.runtime.load(k.compile(assemble=False), device="simulator", report=True)
    loaded.launch(1, x, got)
    assert got.tolist() == [x.sum(dtype=dtype)] * len(x)
    assert loaded.report.total.written["shared"] == warps * x.itemsize


def test_an_exclusive_scan_begins_with_what_changes_nothing() -> None:
    elements = [(nvb.u8, 8), (nvb.s8, 8), (nvb.u16, 16), (s32, 32), (nvb.u64, 64), (f32, 0)]

    @nvb.kernel("sm_90a", threads=32)
    def first(k, out: nvb.Pointer[nvb.f64]):
        for place, (element, bits) in enumerate(elements):
            names = ("add", "mul", "min", "max", *(("and", "or", "xor") if bits else ()))
            for number, name in enumerate(names):
                value = k.warp.scan(name, (k.lane_id() + 3).to(element), exclusive=True)
                with k.if_(k.lane_id() == 0):
                    out[place * 7 + number] = value.to(nvb.f64)

    got = np.zeros((len(elements), 7))
    nvb.runtime.load(first.compile(assemble=False), device="simulator").launch(1, got)
    for row, (element, bits) in zip(got, elements, strict=True):
        low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if element.is_signed else (0.0, 2.0**bits - 1)
        ends = (low, high) if bits else (-np.inf, np.inf)
        ones = (-1.0 if element.is_signed else 2.0**bits - 1, 0.0, 0.0) if bits else (0.0, 0.0, 0.0)
        assert row.tolist() == [0.0, 1.0, ends[1], ends[0], *ones], element


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_a_cluster_reduces_several_values_and_leaves_other_memory_alone(cluster: int) -> None:
    """Of as many types as there are values; memory that lies beside the parts which CTAs exchange stays as it is."""
    kinds = (nvb.f64, nvb.u8, s32, nvb.f16)

    @nvb.kernel("sm_90a", threads=32, cluster=cluster)
    def reduced(k, x: nvb.Pointer[s32], out: nvb.Pointer[nvb.f64], held: nvb.Pointer[u32]):
        kept, lane = k.shared(u32, 32), k.thread_id()
        at = k.block_id() * 32 + lane
        kept[lane] = at.to(u32) + 7
        values = tuple((x[at] + 100 * place).to(kind) for place, kind in enumerate(kinds))
        for place, made in enumerate(k.cluster.reduce("max", values)):
            out[at * len(kinds) + place] = made.to(nvb.f64)
        held[at] = kept[lane]

    count = 32 * cluster
    x = np.random.default_rng(cluster).integers(-40, 40, count).astype(np.int32)
    got, held = np.zeros((count, len(kinds))), np.zeros(count, np.uint32)
    nvb.runtime.load(reduced.compile(assemble=False), device="simulator").launch(cluster, x, got, held)
    assert got.tolist() == [[float(x.max() + 100 * place) for place in range(len(kinds))]] * count
    assert held.tolist() == [7 + at for at in range(count)]


NAMED = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@pytest.mark.parametrize("operation", NAMED)
def test_a_name_combines_as_numpy_does(operation: str) -> None:
    """All threads, those up to each, and those before each in its warp; of words with bits everywhere."""

    @nvb.kernel("sm_90a", threads=96)
    def combined(k, x: nvb.Pointer[u32], out: nvb.Pointer[u32]):
        at = k.thread_id()
        out[at] = k.cta.reduce(operation, x[at])
        out[96 + at] = k.cta.scan(operation, x[at])
        out[192 + at] = k.warp.scan(operation, x[at], exclusive=True, initial=1019)
        out[288 + at] = k.warp.reduce(operation, x[at], width=8)

    x = np.random.default_rng(7).integers(0, 1 << 32, 96, dtype=np.uint32) | 1
    got, combine = np.zeros((4, 96), np.uint32), NAMED[operation]
    nvb.runtime.load(combined.compile(assemble=False), device="simulator").launch(1, x, got)
    assert np.array_equal(got[0], np.full(96, combine.reduce(x, dtype=np.uint32)))
    assert np.array_equal(got[1], combine.accumulate(x, dtype=np.uint32))
    warps = x.reshape(3, 32)
    begun = combine.accumulate(
        np.concatenate([np.full((3, 1), 1019, np.uint32), warps[:, :-1]], 1), axis=1, dtype=np.uint32
    )
    assert np.array_equal(got[2].reshape(3, 32), begun)
    assert np.array_equal(got[3].reshape(-1, 8)[:, 0], combine.reduce(x.reshape(-1, 8), axis=1, dtype=np.uint32))


@pytest.mark.parametrize(("threads", "group"), [(32, {}), (160, {}), (256, {"threads": 128}), (192, {"threads": 64})])
def test_a_scan_keeps_the_order_of_threads(threads: int, group: dict[str, int]) -> None:
    """Maps x -> a x + b, one after the other: they do not commute, and each thread's is another."""
    size = group.get("threads", threads)

    @nvb.kernel("sm_90a", threads=threads)
    def composed(k, x: nvb.Pointer[u32], y: nvb.Pointer[u32], out: nvb.Pointer[u32]):
        at = k.thread_id()
        whose = group | ({"barrier": 1 + k.warp_id() // (size // 32)} if group else {})

        def then(f: Any, g: Any) -> Any:
            return f[0] * g[0], f[1] * g[0] + g[1]

        own = (x[at], y[at])
        parts = k.cta.scan(then, own, **whose), k.cta.scan(then, own, exclusive=True, initial=(5, 11), **whose)
        for place, value in enumerate([*parts[0], *parts[1]]):
            out[place * threads + at] = value

    x, y = np.random.default_rng(threads).integers(0, 1 << 32, (2, threads), dtype=np.uint32) | 1
    got, wanted = np.zeros((4, threads), np.uint32), []
    nvb.runtime.load(composed.compile(assemble=False), device="simulator").launch(1, x, y, got)
    for at, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        if at % size == 0:
            whole, before = (1, 0), (5, 11)
        after = tuple((each[0] * a % 2**32, (each[1] * a + b) % 2**32) for each in (whole, before))
        wanted.append([*after[0], *before])
        whole, before = after
    assert got.T.tolist() == wanted
