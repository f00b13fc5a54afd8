"""Stream-K: all CTAs have the same number of steps, to one, however many tiles there are.

224 tiles, say, are two waves of CTAs on 132 multiprocessors, of which the second one fills two thirds. A CTA that ends
within a tile leaves its sums in global memory, and the one with the tile's last step adds them.
"""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32, u32
from samples.gemm.wide import begin
from samples.w4a16.weights import OCTET, REGISTERS, ROWS, Count, Operands, Pairs, Rows, Scales, Steps, Tile, Words, X


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers), min_ctas=lambda ctas: ctas)
def streams(
    k: nvb.KernelBuilder,
    x: X,
    w: Words,
    scales: Scales,
    memory: nvb.Pointer[f32],
    flags: nvb.Pointer[u32],
    y: Pairs,
    m: Count,
    n: Rows,
    steps: Count,
    *,
    columns: int = 64,
    stages: int = 4,
    consumers: int = 2,
    ctas: int = 1,
) -> None:
    """A tile has 64 rows of W for each consumer, and `columns` rows of X; a step has the columns of a group of both."""
    rows, operands = ROWS * consumers, Operands(x, w, scales, n)
    along_k = Steps(k, columns, stages, consumers)
    k.tma.prefetch_maps(x)
    k.mbarrier.ready()
    blocks = n // rows
    share = k.stream_k(blocks * ((m + (columns - 1)) // columns), steps)

    def place_of(tile: nvb.Value) -> tuple[nvb.Value, nvb.Value]:
        """The row and column of Y^T where a tile begins."""
        return tile % blocks * rows, begin(k, tile // blocks, columns, m)

    with k.producer(registers=40):
        k.griddepcontrol("launch_dependents")
        k.griddepcontrol("wait")
        with share.pieces() as piece:
            at = place_of(piece.tile)
            with k.range(piece.first, piece.end) as step, along_k.ring.fill() as stage:
                along_k.load(stage, operands, at, step)

    with k.consumers(registers=REGISTERS[ctas]) as warpgroup:
        k.griddepcontrol("wait")  # the launch before has the same memory and flags
        acc, slot = along_k.mma.accumulator(), warpgroup * 128 + k.thread_id() % 128
        products, partial_sums = along_k.products(acc), share.partial_sums(memory, flags, warpgroup)
        with share.pieces() as piece:
            along_k.multiply(products, piece.end - piece.first, warpgroup)
            along_k.ring.release()
            with partial_sums.whole(acc, piece):
                first = piece.tile // blocks * columns
                sums, tile = acc.elements(warpgroup), Tile(k, y, place_of(piece.tile), (m, n), first)
                for octet in range(columns // OCTET):
                    tile.write(octet, slot, sums[4 * octet : 4 * octet + 4])
