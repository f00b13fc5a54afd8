"""Work for nothing, told of what is certain: right kernels that look alike, and the kernels of other families."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32

pytestmark = pytest.mark.filterwarnings("ignore::nvbackend.DiagnosticWarning")
UNREAD, EMPTY, NOT_STORED = "mma.unread", "async.empty-group", "epilogue.not-stored"
WARP = nvb.mma.sync("m16n8k16", f16, f16, f32)
GROUP = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
TILE = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]
OUT = nvb.Pointer(f32, align=16)


def said(definition: nvb.KernelDefinition) -> list[str]:
    """The rules that its warnings are of."""
    return [one.rule_id for one in definition.build().diagnostics]


USES = (
    "store",
    "condition",
    "loop",
    "shuffle",
    "shared",
    "print",
    "nothing",
    "arithmetic",
    "another product",
    "no sink",
)


@pytest.mark.parametrize("use", USES)
def test_what_is_done_with_the_sums_of_a_warp(use: str) -> None:
    """Whatever may show outside counts; what is computed of them, and a product that adds to them, does not."""

    @nvb.kernel("sm_80", threads=32)
    def kernel(k, x: nvb.Pointer[u32], out: OUT, n: i32):
        a, b = [x[i] for i in range(4)], [x[i] for i in range(4, 6)]
        total, lane = k.var(0.0), k.thread_id()
        sums = k.mma.sync(WARP, a, b, [0.0] * 4)
        if use == "loop":
            acc = [k.var(0.0) for _ in range(4)]
            with k.range(n):
                for one, value in zip(acc, k.mma.sync(WARP, a, b, acc), strict=True):
                    one.set(value)
            sums = [one + other for one, other in zip(acc, sums, strict=True)]
        row = k.shared(f32, 32)
        if use == "condition":
            with k.if_(sums[0] > 0.0):
                total.set(1.0)
        elif use == "shuffle":
            total.set(k.warp.shuffle(sums[0], "bfly", 1))
        elif use == "shared":
            row[lane] = sums[3]
            k.barrier.sync()
            total.set(row[31 - lane])
        elif use == "print":
            k.print("{}", sums[0])
        elif use == "arithmetic":
            k.var(0.0).set(sums[0] * 2.0 + sums[1])
        elif use == "another product":
            k.mma.sync(WARP, a, b, sums)
        if use != "no sink":
            out[lane] = sums[2] if use in ("store", "loop") else total

    assert said(kernel) == [UNREAD] * (use in ("nothing", "arithmetic", "another product"))


@pytest.mark.parametrize("read", ["all", "second", "element", "condition", "asked for"])
def test_accumulators_of_a_warpgroup(read: str) -> None:
    """Each is asked for by itself, and one of which values are taken and not used is not read."""

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, a: TILE, out: OUT, n: i32):
        mma = k.tiled_mma(GROUP)
        tile, full = k.shared_tile(mma.smem_a(64)), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
            k.tma.load(tile, a, (0, 0), full)
        k.mbarrier.wait(full, 0)
        first, second = mma.accumulator(), mma.accumulator()
        with k.wgmma.group(in_flight=0):
            mma.accumulate(first, tile, tile)
            mma.accumulate(second, tile, tile)
        out[8192 + k.thread_id()] = second[0]
        with k.if_(n > 2) if read == "condition" else nullcontext():
            if read in ("all", "condition"):
                k.store_accumulator(first, out, stride=64)
            elif read == "element":
                out[k.thread_id()] = first.values()[3] * 2.0
            elif read == "asked for":
                first.values()

    found = kernel.build().diagnostics
    assert [one.rule_id for one in found] == [UNREAD] * (read in ("second", "asked for"))
    assert all("accumulator acc" in one.message for one in found)


@pytest.mark.parametrize("read", ["load", "as A", "not"])
def test_sums_in_tensor_memory(read: str) -> None:
    """A load reads them, and so may a product whose A is in tensor memory."""

    @nvb.kernel("sm_100a", threads=128)
    def kernel(k, a: TILE, out: nvb.Pointer[u32]):
        mma = k.tiled_mma(nvb.tcgen05.mma("m64n64k16", f16, f16, f32))
        tile, full, done = k.shared_tile(mma.smem_a(64)), k.mbarrier.array(1, 1), k.mbarrier.array(1, 1)
        with k.tcgen05.tmem(128) as columns:
            k.mbarrier.ready()
            with k.one_thread():
                k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
                k.tma.load(tile, a, (0, 0), full)
                k.mbarrier.wait(full, 0)
                mma.accumulate(columns, tile, tile, accumulate=False)
                if read == "as A":
                    again = k.tiled_mma(nvb.tcgen05.mma("m64n64k16", f16, f16, f32, a_in_tmem=True))
                    left = again.make_fragment_A(columns.columns(0, 32), 64)
                    again.accumulate(columns.columns(64, 64), left, tile, accumulate=False)
                k.tcgen05.commit(done)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            out[k.thread_id()] = 0
            if read == "load":
                load = k.tcgen05.ld(columns.lanes(32 * k.warp_id()), "16x64b", 8)
                k.tcgen05.wait_ld(load)
                out[k.thread_id()] = load.values[0]

    found = [one.rule_id for one in kernel.build(check=False).diagnostics]
    assert found == [UNREAD] * (read == "not")


@pytest.mark.parametrize("kind", ["copies", "stores", "multiplies"])
@pytest.mark.parametrize("issued", ["before", "in some rounds", "never"])
def test_commits(kind: str, issued: str) -> None:
    """Groups that are empty in some rounds are usual."""

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, x: OUT, y: OUT, n: i32(minimum=1)):
        thread = k.thread_id()
        row, mma = k.shared(f32, 128 * 4, align=128), k.tiled_mma(GROUP)
        tile, acc = k.shared_tile(mma.smem_a(64)), mma.accumulator()
        calls = {"copies": k.cp_async, "stores": k.tma, "multiplies": k.wgmma}[kind]
        with k.range(n) if issued == "in some rounds" else nullcontext() as step:
            if kind == "multiplies":
                k.wgmma.fence()
            with k.if_(step < n - 1) if issued == "in some rounds" else nullcontext():
                if kind == "copies" and issued != "never":
                    k.cp_async.copy(row + thread * 4, x + thread * 4, 16)
                elif kind == "stores" and issued != "never":
                    with k.if_(thread == 0):
                        k.bulk.store(y, row, 64)
                elif issued != "never":
                    mma.accumulate(acc, tile, tile)
            calls.commit_group()
            calls.wait_group(0)
        k.barrier.sync()

    assert [one.rule_id for one in kernel.build(check=False).diagnostics] == [EMPTY] * (issued == "never")


@pytest.mark.parametrize("stored", ["one of two ways", "converted", "converted only", "never", "the second"])
def test_reserved_buffers(stored: str) -> None:
    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, c: TILE, n: i32, out: OUT):
        output, acc = k.tma_epilogue(c, 64, 1), k.wgmma.accumulator(64)
        acc.fill(0.0)
        if stored == "the second":
            output.reserve((0, 0), 0)
        reserved = output.reserve((0, 0), 0)
        if stored == "one of two ways":
            with k.if_(n > 0):
                reserved.store(acc)
        elif stored.startswith("converted"):
            converted = reserved.convert(acc)
            if stored == "converted":
                converted.store()
        elif stored == "the second":
            reserved.store(acc)
        output.finish()
        out[k.thread_id()] = 0.0

    assert said(kernel) == [NOT_STORED] * (stored in ("converted only", "never", "the second"))
