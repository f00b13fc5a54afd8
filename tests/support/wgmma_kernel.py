"""One warpgroup, one operand tile each, all its K steps: the kernel that the numbers of an instruction are tested with.

Operands arrive as the bytes of their tiles, so the host decides the layout; registers leave as they are, thread by
thread, so the host decides which element is where.
"""

from __future__ import annotations

import dataclasses

from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.kernel.kernel import FinishedKernel, KernelBuilder
from nvbackend.intrinsics.row.types import u32
from nvbackend.intrinsics.words.smem_descriptor import Major
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.isel.target.target import Target
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.signature import Parameter, Pointer

THREADS = 128
CHUNK = 4  # registers of a 16-byte access


def wgmma_kernel(
    request: WgmmaRequest,
    a_layout: SmemLayout | None,
    b_layout: SmemLayout,
    *,
    start: int | None = None,
    target: str | Target = "sm_90a",
) -> FinishedKernel:
    """D of a 64 x N tile over the whole K of `b_layout`. Parameters: bytes of A (or its fragments), of B, metadata, D.

    `a_layout` None takes A from registers: four a thread and K step, `a[(step * 128 + thread) * 4 + register]`.
    Metadata is one register a thread and step; D is `out[thread * registers + register]`. With `start`, D begins as
    that number in every element, and the products are added to it.
    """
    names = ("a", "b", "metadata", "out")
    parameters = [Parameter(name, Pointer(u32)) for name in names]
    k = KernelBuilder("wgmma_numbers", target, threads=THREADS, parameters=parameters)
    a, b, metadata, out = k.arguments
    thread = k.thread_id()
    tile_b = fill(k, b_layout, b, thread)
    tile_a = fill(k, a_layout, a, thread) if a_layout is not None else None
    k.fence.proxy_async()
    k.barrier.sync()
    request = dataclasses.replace(
        request,
        trans_a=int(a_layout is not None and a_layout.major is Major.MN),
        trans_b=int(b_layout.major is Major.MN),
    )
    steps = b_layout.columns // request.k
    acc = k.wgmma.accumulator(request.n, request.d)
    if start is not None:
        acc.fill(start)
    fragments, places = [], []
    for step in range(steps):
        row = step * THREADS + thread
        if tile_a is None:
            registers = a.byte_offset(row * 16, align=16).load(CHUNK)
            fragments.append(k.wgmma.fragment(registers, request.a))
        if request.sparse:
            places.append(metadata[row])
    stored_k = request.k // 2 if request.sparse else request.k
    with k.wgmma.group():
        for step in range(steps):
            k.wgmma.mma_async(
                acc,
                fragments[step] if tile_a is None else tile_a,
                tile_b,
                request,
                a_at=(0, step * stored_k),
                b_at=(0, step * request.k),
                metadata=places[step] if request.sparse else None,
            )
    for index, value in enumerate(acc.values()):
        out[thread * acc.registers + index] = value.bitcast(u32)
    return k.finish()


def fill(k: KernelBuilder, layout: SmemLayout, source, thread) -> SharedTile:
    """Copy a tile's bytes from global memory, 16 bytes a thread and turn, with ordinary stores."""
    tile = k.shared_tile(layout)
    words = tile.address.cast(u32)
    with k.range(thread, layout.bytes // 16, THREADS) as chunk:
        words.byte_offset(chunk * 16, align=16).store(*source.byte_offset(chunk * 16, align=16).load(CHUNK))
    return tile
