"""PTX by hand, copies: streams in chunks, stages that ldmatrix and stores read, descriptors, swizzles."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32, i32, u64
from tests.dry_run.kernels.cutlass_sm80 import Sums
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TILE, State, copied, gemm, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "copies by hand"
PLAIN = nvb.TensorMap(f16, box=(64, 64), swizzle=0)
PRODUCT = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
SWIZZLE_128, LEADING, STRIDE = 1 << 62, 1 << 16, (1024 >> 4) << 32


@scene(
    STYLE,
    lambda: [gemm(1, 1, steps, steps) for steps in (1, 2, 5)],
    why="The descriptor is made of the stage's address at run time, and advanced by 2: 32 bytes in units of 16.",
    advances_in_bytes=Mistake("descriptor", "The descriptor is advanced by 32 a step, which is 512 bytes."),
    stride_in_bytes=Mistake("descriptor", "The stride between eight rows is 1024 units of 16 bytes."),
    no_swizzle=Mistake("descriptor", "The descriptor says that the tile is not swizzled."),
    pattern_a_row_later=Mistake("descriptor", "The base offset is 1, as of a tile whose pattern begins a row later."),
    stages_in_elements=Mistake("descriptor", "The stages are 4096 bytes apart: the tile's elements."),
    one_stage_further=Mistake("descriptor", "The descriptor is of the stage after: the last one's leaves the ring."),
    released_in_flight=Mistake("released-early", "The stage is given back before the product is waited for."),
)
@nvb.kernel("sm_90a", threads=160)
def descriptors(k, a: MATRIX, b: MATRIX, c: OUT, steps: COUNT, *, mistake=None):
    wrong, stages = named(mistake), 2
    tiles = [k.shared(f16, stages * 4096, align=1024, name=name) for name in "ab"]
    full = k.mbarrier.array(stages, arrivals=1, name="full")
    empty = k.mbarrier.array(stages, arrivals=4, name="empty")
    k.mbarrier.ready()
    fixed = LEADING | (1024 << 32 if wrong("stride_in_bytes") else STRIDE) | (0 if wrong("no_swizzle") else SWIZZLE_128)
    fixed |= (1 << 49) if wrong("pattern_a_row_later") else 0

    def descriptor(tile, stage, part):
        size = 4096 if wrong("stages_in_elements") else 8192
        place = stage + 1 if wrong("one_stage_further") else stage
        start = (tile.bytes + (place * size).to(nvb.u32)) >> 4 & 0x3FFF
        return (start.to(u64) | fixed) + part * (32 if wrong("advances_in_bytes") else 2)

    with k.if_(k.warp_id() == 4), k.one_thread(4):
        write = State(k, stages, 1)
        with k.range(steps) as step:
            k.mbarrier.wait(empty + write.index, write.phase)
            k.mbarrier.arrive(full + write.index, expect_tx=2 * 8192)
            for tile, source in zip(tiles, (a, b), strict=True):
                k.tma.load_box(tile + write.index * 4096, source, (step * 64, 0), full + write.index)
            write.advance()
    with k.if_(k.warp_id() < 4):
        acc, read = k.wgmma.accumulator(64), State(k, stages)
        with k.range(steps):
            k.mbarrier.wait(full + read.index, read.phase)
            k.wgmma.fence()
            for part in range(4):
                operands = [descriptor(tile, read.index, part) for tile in tiles]
                k.wgmma.mma_async(acc, *operands, PRODUCT)
            k.wgmma.commit_group()
            if wrong("released_in_flight"):
                k.mbarrier.arrive(empty + read.index, when=k.lane_id() == 0)
            k.wgmma.wait_group(0)
            if not wrong("released_in_flight"):
                k.mbarrier.arrive(empty + read.index, when=k.lane_id() == 0)
            read.advance()
        k.store_accumulator(acc, c, 64)


@scene(
    STYLE,
    lambda: [gemm(1, 1, steps, steps) for steps in (1, 3, 6)],
    why="ldmatrix is done when its registers are: each warp gives a stage back after its last one.",
    released_after_half=Mistake("released-early", "A warp gives the stage back with half of its fragments loaded."),
    released_by_the_first_warp=Mistake("released-early", "The first warp gives the stage back for all four."),
    last_warp_is_not_counted=Mistake("released-early", "Empty counts three warps, and the last arrives after its loads "
                                                       "without being counted."),
    last_warp_does_not_wait=Mistake("read-before-wait", "The last warp loads its fragments without a wait."),
    gives_back_every_second_stage=Mistake("undrained", "A warp gives back the first stage of the ring alone."),
)  # fmt: skip
@nvb.kernel("sm_90", threads=160)
def matrices_from_a_ring(k, a: MATRIX, b: MATRIX, c: OUT, steps: COUNT, *, mistake=None):
    """TMA, ldmatrix and mma.sync: a fifth warp loads."""
    wrong, stages = named(mistake), 2
    ta, tb = (k.shared_tiles(TILE, stages, name=name) for name in "ab")
    full = k.mbarrier.array(stages, arrivals=1, name="full")
    counts = {"released_by_the_first_warp": 1, "last_warp_is_not_counted": 3}
    empty = k.mbarrier.array(stages, arrivals=counts.get(mistake, 4), name="empty")
    k.mbarrier.ready()
    warp, lane = k.warp_id(), k.lane_id()
    with k.if_(warp == 4), k.one_thread(4):
        write = State(k, stages, 1)
        with k.range(steps) as step:
            k.mbarrier.wait(empty + write.index, write.phase)
            k.mbarrier.arrive(full + write.index, expect_tx=2 * TILE.bytes)
            k.tma.load(ta.at(write.index), a, (0, step * 64), full + write.index)
            k.tma.load(tb.at(write.index), b, (0, step * 64), full + write.index)
            write.advance()
    with k.if_(warp < 4):
        read, sums = State(k, stages), Sums(k)
        arrives = lane == 0
        if wrong("released_by_the_first_warp"):
            arrives = arrives & (warp == 0)
        elif wrong("last_warp_is_not_counted"):
            arrives = arrives & (warp < 3)
        with k.range(steps) as step:
            if wrong("last_warp_does_not_wait"):
                with k.if_(warp < 3):
                    k.mbarrier.wait(full + read.index, read.phase)
            else:
                k.mbarrier.wait(full + read.index, read.phase)
            for part in range(4):
                of_a = _matrices(k, ta.at(read.index), warp * 16 + lane % 16, lane // 16 + 2 * part)
                rows, chunk = lane % 8 + lane // 16 * 8, lane // 8 % 2 + 2 * part
                of_b = [word for n in range(4) for word in _matrices(k, tb.at(read.index), n * 16 + rows, chunk)]
                if part == (1 if wrong("released_after_half") else 3):
                    every = not wrong("gives_back_every_second_stage")
                    k.mbarrier.arrive(empty + read.index, when=arrives if every else arrives & (step & 1 == 0))
                sums.multiply(of_a, of_b)
            read.advance()
        sums.store(c, warp, lane)


def _matrices(k, tile, row, chunk):
    return k.mma.ldmatrix(tile.address.byte_offset(row * 128 + (chunk ^ (row % 8)) * 16, align=16), 4)


@scene(
    STYLE,
    copied(1, 3, 4, 9),
    why="One thread loads and stores; a stage is loaded again when the store before the last has read.",
    leaves_one_more=Mistake("released-early", "The wait leaves two stores, one of them of the stage that is loaded."),
    waits_from_the_fifth_on=Mistake("released-early", "The first stage that comes again is loaded without the wait."),
    waits_before_the_commit=Mistake("released-early", "The newest store is not yet in a group when the wait counts."),
    stores_before_it_came=Mistake("read-before-wait", "The tile is stored with no wait for its load."),
    loads_as_many_as_stages=Mistake("refilled-early", "The loads run as many steps ahead as there are stages."),
    announces_twice=Mistake("accounting", "The first tile of the stream is announced twice."),
    index_of_four=Mistake("ring-index", "The stage is taken modulo four, and there are three."),
)
@nvb.kernel("sm_90", threads=32)
def passed_through(k, x: MATRIX, y: MATRIX, tiles: COUNT, *, mistake=None):
    """A copy by TMA through three stages, two tiles ahead."""
    wrong, stages = named(mistake), 3
    buffers = k.shared_tiles(TILE, stages, name="buffers")
    full = k.mbarrier.array(stages, arrivals=1, name="full")
    k.mbarrier.ready()
    ahead = stages if wrong("loads_as_many_as_stages") else stages - 1
    place = lambda tile: tile % (4 if wrong("index_of_four") else stages)  # noqa: E731

    def load(tile):
        with k.if_(tile < tiles):
            k.mbarrier.arrive(full + place(tile), expect_tx=TILE.bytes)
            k.tma.load(buffers.at(place(tile)), x, (tile * 64, 0), full + place(tile))

    with k.one_thread():
        if wrong("announces_twice"):
            k.mbarrier.expect_tx(full, TILE.bytes)
        for tile in range(ahead):
            load(k.const(tile, i32))
        with k.range(tiles) as tile:
            if not wrong("stores_before_it_came"):
                k.mbarrier.wait(full + place(tile), tile // stages & 1)
            k.tma.store(y, (tile * 64, 0), buffers.at(place(tile)))
            if not wrong("waits_before_the_commit"):
                k.tma.commit_group()
            if wrong("waits_from_the_fifth_on"):
                with k.if_(tile >= 4):
                    k.tma.wait_group(1, reading=True)
            else:
                k.tma.wait_group(2 if wrong("leaves_one_more") else 1, reading=True)
            if wrong("waits_before_the_commit"):
                k.tma.commit_group()
            load(tile + ahead)
        k.tma.wait_group()


def _streamed(*counts):
    def launch(count):
        x = small(count, count, kind=np.float32)
        return Launch(1, (x, Out(2 * x), Out(2 * x[:1]), count))

    return lambda: [launch(count) for count in counts]


@scene(
    STYLE,
    _streamed(128, 4, 300, 1000),
    why="The last chunk is shorter, and so are its copies; the first waits are for groups that are not there.",
    announces_a_whole_chunk=Mistake("accounting", "512 bytes are announced of the last chunk too."),
    reads_a_whole_chunk=Mistake("unwritten", "All threads read the last chunk, also past what came of it."),
    no_fence=Mistake("proxy-fence", "What the threads wrote in place is stored without a fence."),
    fence_in_one_warp=Mistake("proxy-fence", "The first warp alone fences what all have written."),
    no_barrier_before_the_store=Mistake("race", "The chunk is stored before all threads have doubled it."),
    next_load_before_the_store_has_read=Mistake("bulk-group", "A chunk is loaded where the store still reads."),
    reads_the_result_too_early=Mistake("bulk-group", "The result is read after a wait for the stores' reads alone."),
    parity_of_the_chunk=Mistake("parity", "The parity is the chunk's own, and there are two stages."),
)
@nvb.kernel("sm_90", threads=128)
def doubled_in_place(k, x: OUT, y: OUT, first: OUT, count: i32, *, mistake=None):
    """Chunks of 128 f32, of a number that is a multiple of 4; then the first element, read back."""
    wrong, thread = named(mistake), k.thread_id()
    buffers = k.shared(f32, 256, align=128, name="buffers")
    full = k.mbarrier.array(2, arrivals=1, name="full")
    k.mbarrier.ready()
    left = lambda chunk: k.math.min(count - chunk * 128, k.const(128, i32))  # noqa: E731

    def load(chunk):
        with k.if_((thread == 0) & (chunk * 128 < count)):
            here = full + (chunk & 1)
            k.mbarrier.arrive(here, expect_tx=512 if wrong("announces_a_whole_chunk") else left(chunk) * 4)
            k.bulk.load(buffers + (chunk & 1) * 128, x + chunk * 128, left(chunk) * 4, here)

    load(k.const(0, i32))
    with k.range((count + 127) // 128) as chunk:
        buffer = buffers + (chunk & 1) * 128
        with k.if_(thread == 0):
            if not wrong("next_load_before_the_store_has_read"):
                k.tma.wait_group(0, reading=True)
        load(chunk + 1)
        k.mbarrier.wait(full + (chunk & 1), chunk & 1 if wrong("parity_of_the_chunk") else chunk >> 1 & 1)
        with k.if_(thread < (128 if wrong("reads_a_whole_chunk") else left(chunk))):
            buffer[thread] = buffer[thread] * 2.0
        if wrong("fence_in_one_warp"):
            with k.if_(k.warp_id() == 0):
                k.fence.proxy_async()
        elif not wrong("no_fence"):
            k.fence.proxy_async()
        if not wrong("no_barrier_before_the_store"):
            k.barrier.sync()
        with k.if_(thread == 0):
            k.bulk.store(y + chunk * 128, buffer, left(chunk) * 4)
            k.tma.commit_group()
    with k.if_(thread == 0):
        k.tma.wait_group(0, reading=wrong("reads_the_result_too_early"))
        first[0] = y[0]
