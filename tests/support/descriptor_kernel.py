"""Many small matrix products in one launch, each by descriptors that the host made: a CTA for each."""

from __future__ import annotations

from nvbackend.builder.kernel.kernel import FinishedKernel, KernelBuilder
from nvbackend.intrinsics.row.types import u32, u64
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.signature import Parameter, Pointer

THREADS = 128
CHUNK = 4  # registers of a 16-byte access


def descriptor_kernel(request: WgmmaRequest, steps: int, region: int) -> FinishedKernel:
    """D of `steps` instructions by the descriptors `words[(cta * steps + step) * 2 + operand]`.

    Two regions of `region` bytes of shared memory, A's and B's, are filled by ordinary stores with the pieces
    `images[place]` whose places are `pieces[cta * 2 + operand]`. Addresses in the words count from the first region,
    which lies at a multiple of 1024. D is `out[(cta * 128 + thread) * registers + register]`.
    """
    parameters = [
        Parameter("images", Pointer(u32)),
        Parameter("pieces", Pointer(u32)),
        Parameter("words", Pointer(u64)),
        Parameter("out", Pointer(u32)),
    ]
    k = KernelBuilder("by_descriptors", "sm_90a", threads=THREADS, parameters=parameters)
    images, pieces, words, out = k.arguments
    thread, cta = k.thread_id(), k.block_id()
    memory = k.shared(u32, 2 * region // 4, align=1024, name="regions")
    for operand in range(2):
        source = images + pieces[cta * 2 + operand] * (region // 4)
        with k.range(thread, region // 16, THREADS) as chunk:
            registers = source.byte_offset(chunk * 16, align=16).load(CHUNK)
            memory.byte_offset(chunk * 16 + operand * region, align=16).store(*registers)
    k.fence.proxy_async()
    k.barrier.sync()
    base = (memory.bytes >> 4).to(u64)
    accumulator = k.wgmma.accumulator(request.n, request.d)
    given = [[words[(cta * steps + step) * 2 + operand] + base for operand in range(2)] for step in range(steps)]
    with k.wgmma.group():
        for a, b in given:
            k.wgmma.mma_async(accumulator, a, b, request)
    for index, value in enumerate(accumulator.values()):
        out[(cta * THREADS + thread) * accumulator.registers + index] = value.bitcast(u32)
    return k.finish()
