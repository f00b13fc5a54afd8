"""What a CTA does by loop, against the simulator's count of a launch, and the roofline against the data sheets."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.codegen.looking.roofline import CHIPS, lines, rooflines
from nvbackend.codegen.looking.work import LoopWork, Work, work_by_loop
from samples import blackwell_gemm
from samples.hopper_gemm import gemm

THREADS, ROUNDS = 64, 5


@nvb.kernel("sm_80", threads=THREADS)
def scaled(k, x: nvb.Pointer(f32, align=4), y: nvb.Pointer(f32, align=4), rounds: i32):
    t = k.thread_id()
    total = k.var(0.0)
    with k.range(rounds) as i:
        total += x[i * THREADS + t] * 3.0
    y[t] = total


@nvb.kernel("sm_80", threads=THREADS)
def products(k, x: nvb.Pointer(nvb.u32, align=16), out: nvb.Pointer(f32, align=4), rounds: i32):
    t = k.thread_id()
    tile = k.shared(nvb.u32, THREADS * 4, align=16)
    acc = [k.var(0.0) for _ in range(4)]
    with k.range(rounds) as i:
        k.cp_async.copy(tile + t * 4, x + (i * THREADS + t) * 4, 16)
        k.cp_async.commit_group()
        k.cp_async.wait_group(0)
        k.barrier.sync()
        words = [tile[t * 4 + each] for each in range(4)]
        d = k.mma.sync(nvb.mma.sync("m16n8k16", f16, f16, f32), words, words[:2], acc)
        for old, new in zip(acc, d, strict=True):
            old.set(new)
        k.barrier.sync()
    for place, each in enumerate(acc):
        out[t * 4 + place] = each


def simulated(kernel, *arguments):
    module = nvb.simulator.Simulator().load(kernel.ptx)
    shared = kernel.signature.bounds.dynamic_shared_bytes
    return module.launch(kernel.name, block=(THREADS, 1, 1), args=arguments, shared=shared, report=True)


def inner(works: list[LoopWork]) -> Work:
    (work,) = (each.work for each in works if each.is_inner)
    return work


def outside(works: list[LoopWork]) -> Work:
    return next((each.work for each in works if each.place is None), Work())


def test_bytes_and_operations_of_threads_are_the_simulators() -> None:
    kernel = scaled.compile(assemble=False)
    works = work_by_loop(kernel)
    x, y = np.ones(THREADS * ROUNDS, np.float32), np.zeros(THREADS, np.float32)
    report = simulated(kernel, x, y, ROUNDS)
    assert report.total.read["global"] == inner(works).read * ROUNDS + outside(works).read
    assert report.total.written["global"] == inner(works).written * ROUNDS + outside(works).written
    arithmetic = sum(report.instructions[name] for name in ("add", "mul") if name in report.instructions)
    assert inner(works).operations == {"f32": 2 * THREADS}
    assert arithmetic >= 2 * THREADS * ROUNDS
    assert (y == 3.0 * ROUNDS).all()


def test_bytes_and_products_of_copies_and_tensor_cores_are_the_simulators() -> None:
    kernel = products.compile(assemble=False)
    works = work_by_loop(kernel)
    x, out = np.zeros(THREADS * 4 * ROUNDS, np.uint32), np.zeros(THREADS * 4, np.float32)
    report = simulated(kernel, x, out, ROUNDS)
    assert report.total.read["global"] == inner(works).read * ROUNDS + outside(works).read
    warps = THREADS // 32
    assert inner(works).operations == {"tensor f16": 2 * 16 * 8 * 16 * warps}
    assert report.instructions["mma"] == THREADS * ROUNDS
    assert inner(works).operations["tensor f16"] * ROUNDS == report.instructions["mma"] // 32 * 4096
    assert report.total.written["global"] == inner(works).written * ROUNDS + outside(works).written


def test_the_roles_of_a_gemm_are_counted_apart() -> None:
    """One lane copies 128 x 64 of A and half of 256 x 64 of B; two warpgroups multiply 4 times m64n256k16."""
    works = [each for each in work_by_loop(gemm.compile(assemble=False)) if each.is_inner and each.work]
    copies = [each.work for each in works if each.work.read and not each.work.operations]
    multiplies = [each.work for each in works if each.work.operations]
    assert [(each.read, each.written) for each in copies] == [(128 * 64 * 2 + 128 * 64 * 2, 0)]
    assert [dict(each.operations) for each in multiplies] == [{"tensor f16": 2 * 128 * 256 * 64}]
    assert not any(each.work.most for each in works)


def test_a_product_in_tensor_memory_is_its_extents() -> None:
    """Each of the issuing thread's rounds multiplies 128 x 64 by 64 x 256."""
    works = [each.work for each in work_by_loop(blackwell_gemm.gemm.compile(assemble=False)) if each.is_inner]
    assert [dict(each.operations) for each in works if each.operations] == [{"tensor f16": 2 * 128 * 256 * 64}]


def test_the_roofline_of_the_gemm() -> None:
    kernel = gemm.compile(assemble=False)
    by_chip = {each.chip: each for each in rooflines(kernel.target, work_by_loop(kernel))}
    assert set(by_chip) == {"H100 SXM", "H200 SXM"}
    for name, bandwidth in (("H100 SXM", 3.35), ("H200 SXM", 4.8)):
        roof = by_chip[name]
        per_byte = 2 * 128 * 256 * 64 / (2 * 128 * 64 * 2)
        assert roof.per_byte == per_byte == 128
        assert roof.bound == ("bytes" if per_byte * bandwidth < 989.4 else "operations")
        assert roof.rate == pytest.approx(min(per_byte * bandwidth, 989.4))
        assert roof.peak == pytest.approx(989.4)


def test_a_kernel_that_moves_nothing_has_operations_alone() -> None:
    @nvb.kernel("sm_90", threads=32)
    def spun(k, x: nvb.Pointer(f32, align=4)):
        value = k.var(1.0)
        with k.range(8):
            value *= 1.5
        x[k.thread_id()] = value

    kernel = spun.compile(assemble=False)
    (roof, _) = rooflines(kernel.target, work_by_loop(kernel))
    assert str(roof) == f"H100 SXM: operations alone, {roof.rate:.3g} of {roof.peak:g} T/s"
    json.dumps(kernel.figures(), allow_nan=False)


def test_a_kernel_without_operations_has_bytes_alone() -> None:
    @nvb.kernel("sm_90", threads=32)
    def copied(k, x: nvb.Pointer(f32, align=4), y: nvb.Pointer(f32, align=4)):
        y[k.thread_id()] = x[k.thread_id()]

    kernel = copied.compile(assemble=False)
    (work,) = (each.work for each in work_by_loop(kernel))
    assert (work.read, work.written, dict(work.operations)) == (128, 128, {})
    assert str(rooflines(kernel.target, work_by_loop(kernel))[0]) == "H100 SXM: bytes alone, 3.35 TB/s"
    assert "outside of loops: 128 bytes read, 128 bytes written" in kernel.report()
    assert kernel.figures()["work"] == [
        {"file": None, "line": None, "depth": 0, "operations": {}, "read": 128, "written": 128, "at_most": False}
    ]


@pytest.mark.parametrize(
    ("pair", "element", "target", "rates"),
    [
        ("f16x2", "f16", "sm_80", {"A100 80 GB SXM": 78}),
        ("bf16x2", "bf16", "sm_90", {"H100 SXM": 133.8, "H200 SXM": 133.8}),
        ("f32x2", "f32", "sm_100a", {"HGX B200": 80}),
    ],
)
def test_numbers_in_pairs_are_counted_one_by_one(pair, element, target, rates) -> None:
    """The rates are those of the A100's and H100's white papers, tables of peak rates without tensor cores."""
    pointer = nvb.Pointer(getattr(nvb, pair), align=8)
    k = nvb.KernelBuilder("pairs", target, threads=64, parameters=[nvb.Parameter(name, pointer) for name in "xy"])
    x, y = k.arguments
    t = k.thread_id()
    a = x[t]
    sums = k.packed.add(pair, k.packed.mul(pair, a, a), a)  # two results a thread for each call
    y[t] = k.packed.fma(pair, sums, a, a)  # a product and a sum of each

    kernel = k.compile(assemble=False)
    (work,) = (each.work for each in work_by_loop(kernel))
    size = 8 if pair == "f32x2" else 4
    assert (dict(work.operations), work.read, work.written) == ({element: 64 * (2 + 2 + 4)}, 64 * size, 64 * size)
    assert {chip.name: chip.rates[element] for chip in CHIPS[kernel.target.number]} == pytest.approx(rates)
    assert {each.chip: each.peak for each in rooflines(kernel.target, work_by_loop(kernel))} == pytest.approx(rates)


def test_a_rounding_does_not_hide_arithmetic() -> None:
    @nvb.kernel("sm_90", threads=64)
    def rounded(k, x: nvb.Pointer(f32, align=4), y: nvb.Pointer(f32, align=4)):
        t = k.thread_id()
        y[t] = k.math.fma(x[t], x[t], k.math.add(x[t], 1.0, rounding="rz"), rounding="rp")

    (work,) = (each.work for each in work_by_loop(rounded.compile(assemble=False)))
    assert dict(work.operations) == {"f32": 64 * 3}


def test_a_loop_without_a_line_is_a_loop() -> None:
    """IR that a compiler brings may have no lines."""
    work = Work(read=4)
    target = nvb.Target.parse("sm_90")
    told = list(lines(target, [LoopWork(None, 0, False, work), LoopWork(None, 1, True, work)]))
    assert told[:2] == ["outside of loops: 4 bytes read", "a round of a loop: 4 bytes read"]


def test_threads_that_may_pass_by_are_said() -> None:
    @nvb.kernel("sm_90", threads=64)
    def guarded(k, x: nvb.Pointer(f32, align=4), n: i32):
        with k.if_(x[k.thread_id()] > 0.0):
            x[k.thread_id()] = 1.0

    works = work_by_loop(guarded.compile(assemble=False))
    assert works[0].work.most
    assert works[0].work.written == 256


def test_every_chip_has_the_rates_of_its_tensor_cores() -> None:
    """An H100 does 4 times as much in f16 as an A100 does in tf32 times 1.6: both are of the data sheets."""
    for number, chips in CHIPS.items():
        for chip in chips:
            assert chip.rates["tensor f16"] > chip.rates["f32"], number
            assert chip.bandwidth > 0.3
    (a100,), (h100, h200) = CHIPS[80], CHIPS[90]
    assert a100.rates["tensor f16"] == 2 * a100.rates["tensor tf32"] == 312
    assert h100.rates == h200.rates
    assert h100.rates["tensor e4m3"] == pytest.approx(2 * h100.rates["tensor f16"], rel=1e-3)
