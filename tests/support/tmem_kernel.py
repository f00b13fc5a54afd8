"""A kernel that multiplies one tile in tensor memory, with every step that a test may leave out or change."""

from __future__ import annotations

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import f16, f32, i32, u8, u32
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor, Tcgen05SmemDescriptor, Tcgen05Swizzle
from nvbackend.isel.select.tcgen05.request import Tcgen05Request
from nvbackend.signature import Parameter, Pointer, Scalar

COLUMNS = 128
SHAPE = InstructionDescriptor(kind="f16", m=128, n=COLUMNS, a=f16, b=f16, d=f32)
LAYOUT = Tcgen05SmemDescriptor(0, 16, 1024, swizzle=Tcgen05Swizzle.B128)
F16 = Tcgen05Request("f16")


def multiply(*changes: str, issuer: int = 0, threads: int = 128) -> KernelBuilder:
    """The kernel, not finished. `changes` name what is left out ("no commit") or done otherwise ("free twice").

    One thread of warp `issuer` issues the mma; warps 0 to 3 read the accumulator; warp 0 allocates.
    """
    parameters = [Parameter("out", Pointer(u32)), Parameter("steps", Scalar(i32))]
    k = KernelBuilder("multiply", "sm_100a", threads=threads, parameters=parameters)
    out, steps = k.arguments
    cell = k.shared(u32, 2)
    done = k.mbarrier.array(1, 1)
    tiles = k.shared(u8, 2 * 128 * 128, align=1024)
    warp = k.warp_id()
    if "relinquish first" in changes:
        with k.if_(warp == 0):
            k.tcgen05.relinquish_alloc_permit()
    with k.if_(warp == 0):
        k.tcgen05.alloc(cell, COLUMNS)
        if "too many columns" in changes:
            k.tcgen05.alloc(cell + 1, 512)
        if not {"relinquish first", "no relinquish"} & {*changes}:
            k.tcgen05.relinquish_alloc_permit()
    k.mbarrier.ready()
    tmem = cell[0]
    if "return early" in changes:
        with k.if_(steps == 0):
            k.return_()
    with k.one_thread(issuer):
        a = k.tcgen05.smem_descriptor(tiles, LAYOUT)
        b = k.tcgen05.smem_descriptor(tiles.byte_offset(128 * 128), LAYOUT)
        with k.range(steps) as step:
            first = True if "accumulate at first" in changes else step > 0
            k.tcgen05.mma(F16, tmem, a, b, SHAPE, accumulate=first)
        if "no commit" not in changes:
            k.tcgen05.commit(done)
    if "no wait" not in changes:
        k.mbarrier.wait(done, 0)
    if "no fence after" not in changes:
        k.tcgen05.fence_after_thread_sync()
    _read(k, tmem, out, changes)
    if "no fence before" not in changes:
        k.tcgen05.fence_before_thread_sync()
    k.barrier.sync()
    _free(k, cell, changes, steps, out)
    return k


def _read(k, tmem, out, changes):
    with k.if_(k.warp_id() < 4):
        lanes = k.warp_id().to(u32) << 21
        if "store" in changes or "store without wait" in changes:
            k.tcgen05.st(tmem + lanes, "32x32b", [1, 2, 3, 4])
            if "store" in changes:
                k.tcgen05.wait_st()
        first = COLUMNS - 16 if "outside" in changes else 0
        load = k.tcgen05.ld(tmem + lanes + first, "32x32b", 32)
        k.tcgen05.wait_ld(load)
        out[k.thread_id()] = load.values[0]


def _free(k, cell, changes, steps, out):
    tmem = cell[0]
    with k.if_(k.warp_id() == 0):
        if "no dealloc" in changes:
            return
        if "dealloc on one path" in changes:
            with k.if_(steps == 3):
                k.tcgen05.dealloc(tmem, COLUMNS)
            return
        given = COLUMNS // 2 if "other columns" in changes else COLUMNS
        k.tcgen05.dealloc(tmem, given)
        if "free twice" in changes:
            k.tcgen05.dealloc(tmem, COLUMNS)
        if "too many columns" in changes:
            k.tcgen05.dealloc((cell + 1)[0], 512)
        if "read after dealloc" in changes:
            load = k.tcgen05.ld(tmem, "32x32b", 1)
            k.tcgen05.wait_ld(load)
            out[0] = load.values[0]
