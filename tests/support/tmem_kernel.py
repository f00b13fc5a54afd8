"""A kernel that multiplies one tile in tensor memory, with every step that a test may leave out or change."""

from __future__ import annotations

from nvbackend.builder.kernel import KernelBuilder
from nvbackend.intrinsics.tcgen05_descriptor import InstructionDescriptor, Tcgen05SmemDescriptor, Tcgen05Swizzle
from nvbackend.intrinsics.types import f16, f32, i32, u8, u32
from nvbackend.isel.families.tcgen05_request import Tcgen05Request
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
    done = k.mbarriers(1, 1)
    tiles = k.shared(u8, 2 * 128 * 128, align=1024)
    warp = k.warp_id()
    if "relinquish first" in changes:
        with k.if_(warp == 0):
            k.tcgen05_relinquish_alloc_permit()
    with k.if_(warp == 0):
        k.tcgen05_alloc(cell, COLUMNS)
        if "too many columns" in changes:
            k.tcgen05_alloc(cell + 1, 512)
        if not {"relinquish first", "no relinquish"} & {*changes}:
            k.tcgen05_relinquish_alloc_permit()
    k.barriers_ready()
    tmem = cell[0]
    if "return early" in changes:
        with k.if_(steps == 0):
            k.return_()
    with k.one_thread(issuer):
        a = k.tcgen05_smem_descriptor(tiles, LAYOUT)
        b = k.tcgen05_smem_descriptor(tiles.byte_offset(128 * 128), LAYOUT)
        with k.range(steps) as step:
            first = True if "accumulate at first" in changes else step > 0
            k.tcgen05_mma(F16, tmem, a, b, SHAPE, accumulate=first)
        if "no commit" not in changes:
            k.tcgen05_commit(done)
    if "no wait" not in changes:
        k.mbarrier_wait(done, 0)
    if "no fence after" not in changes:
        k.tcgen05_fence_after_thread_sync()
    _read(k, tmem, out, changes)
    if "no fence before" not in changes:
        k.tcgen05_fence_before_thread_sync()
    k.barrier()
    _free(k, cell, changes, steps, out)
    return k


def _read(k, tmem, out, changes):
    with k.if_(k.warp_id() < 4):
        lanes = k.warp_id().to(u32) << 21
        if "store" in changes or "store without wait" in changes:
            k.tcgen05_st(tmem + lanes, "32x32b", [1, 2, 3, 4])
            if "store" in changes:
                k.tcgen05_wait_st()
        first = COLUMNS - 16 if "outside" in changes else 0
        load = k.tcgen05_ld(tmem + lanes + first, "32x32b", 32)
        k.tcgen05_wait_ld(load)
        out[k.thread_id()] = load.values[0]


def _free(k, cell, changes, steps, out):
    tmem = cell[0]
    with k.if_(k.warp_id() == 0):
        if "no dealloc" in changes:
            return
        if "dealloc on one path" in changes:
            with k.if_(steps == 3):
                k.tcgen05_dealloc(tmem, COLUMNS)
            return
        given = COLUMNS // 2 if "other columns" in changes else COLUMNS
        k.tcgen05_dealloc(tmem, given)
        if "free twice" in changes:
            k.tcgen05_dealloc(tmem, COLUMNS)
        if "too many columns" in changes:
            k.tcgen05_dealloc((cell + 1)[0], 512)
        if "read after dealloc" in changes:
            load = k.tcgen05_ld(tmem, "32x32b", 1)
            k.tcgen05_wait_ld(load)
            out[0] = load.values[0]
