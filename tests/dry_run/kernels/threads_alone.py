"""CUDA by hand, without copies of its own: halos, histograms, queues, trees; and maps that swizzle or do not."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TILE, chunk_of, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "threads by hand"
U32, I32 = nvb.Pointer(u32), nvb.Pointer(i32)
PLAIN = nvb.TensorMap(f16, box=(64, 64), swizzle=0)


def _summed(*counts):
    def launch(rows, count):
        x = small(rows, rows, count, kind=np.float32)
        wide = np.pad(x, ((0, 0), (1, 1)))
        return Launch((count + 127) // 128, (x, Out(wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]), rows, count))

    return lambda: [launch(*one) for one in counts]


@scene(
    STYLE,
    _summed((1, 128), (3, 256), (4, 200)),
    why="The edges of the array are filled with zeros, by the threads that have no neighbour there.",
    edges_are_not_filled=Mistake("unwritten", "The places left and right of the array are not written."),
    last_edge_is_not_filled=Mistake("unwritten", "Where the last CTA has fewer elements, the place after them is not."),
    no_barrier=Mistake("race", "The neighbours are read with no barrier after they are written."),
    one_barrier_a_row=Mistake("race", "The next row is written while neighbours still read this one."),
    barrier_of_a_warp=Mistake("race", "A barrier of the warp is where one of the CTA has to be."),
    barrier_in_the_last_row_alone=Mistake("race", "The second barrier is left out until the last row."),
)
@nvb.kernel("sm_80", threads=128)
def neighbours(k, x: OUT, y: OUT, rows: COUNT, count: COUNT, *, mistake=None):
    """y is the sum of each element of a row and its neighbours."""
    wrong, thread = named(mistake), k.thread_id()
    tile = k.shared(f32, 130, name="tile")
    first = k.block_id() * 128
    index = first + thread
    last = k.math.min(count - first, k.const(128, i32)) - 1
    zeros = not wrong("edges_are_not_filled")
    with k.range(rows) as row:
        source = x + row * count
        with k.if_(index < count):
            tile[thread + 1] = source[index]
        with k.if_((thread == 0) & (first > 0)):
            tile[0] = source[first - 1]
        with k.if_((thread == last) & (index + 1 < count)):
            tile[thread + 2] = source[index + 1]
        if zeros:
            with k.if_((thread == 0) & (first == 0)):
                tile[0] = 0.0
            at_end = (thread == last) & (index + 1 == count)
            if wrong("last_edge_is_not_filled"):
                at_end = at_end & (last == 127)
            with k.if_(at_end):
                tile[thread + 2] = 0.0
        if wrong("barrier_of_a_warp"):
            k.warp.sync()
        elif not wrong("no_barrier"):
            k.barrier.sync()
        with k.if_(index < count):
            y[row * count + index] = tile[thread] + tile[thread + 1] + tile[thread + 2]
        if wrong("barrier_in_the_last_row_alone"):
            with k.if_(row + 1 == rows):
                k.barrier.sync()
        elif not wrong("one_barrier_a_row"):
            k.barrier.sync()


def _counted(*counts):
    def launch(grid, count):
        x = np.random.default_rng(count).integers(0, 1000, count).astype(np.uint32)
        return Launch(grid, (x, Out(np.bincount(x & 63, minlength=64).astype(np.uint32)), count))

    return lambda: [launch(*one) for one in counts]


@scene(
    STYLE,
    _counted((1, 100), (2, 700)),
    why="Atomics of one word need no order between them.",
    not_cleared=Mistake("unwritten", "The bins are counted up from what was there."),
    counted_before_all_are_cleared=Mistake("race", "No barrier is between clearing the bins and counting."),
    read_before_all_have_counted=Mistake("race", "No barrier is between counting and reading the bins."),
    counted_without_atomics=Mistake("race", "The bins are loaded, incremented and stored."),
    half_is_cleared=Mistake("unwritten", "One warp clears, and has half as many lanes as there are bins."),
)
@nvb.kernel("sm_80", threads=128)
def histogram(k, x: U32, y: U32, count: COUNT, *, mistake=None):
    wrong, thread = named(mistake), k.thread_id()
    bins = k.shared(u32, 64, name="bins")
    if not wrong("not_cleared"):
        with k.if_(thread < (32 if wrong("half_is_cleared") else 64)):
            bins[thread] = 0
    if not wrong("counted_before_all_are_cleared"):
        k.barrier.sync()
    with k.range(k.block_id() * 128 + thread, count, k.block_count() * 128) as index:
        place = bins + (x[index] & 63)
        if wrong("counted_without_atomics"):
            place[0] = place[0] + 1
        else:
            place.atomic("add", 1)
    if not wrong("read_before_all_have_counted"):
        k.barrier.sync()
    with k.if_(thread < 64):
        (y + thread).atomic("add", bins[thread])


def _worked(*counts):
    def launch(grid, count):
        x = small(count, count, 128, kind=np.float32)
        return Launch(grid, (np.zeros(1, np.int32), Out(x + 1, begins=x), count))

    return lambda: [launch(*one) for one in counts]


@scene(
    STYLE,
    _worked((1, 1), (2, 7)),
    why="The loop ends for all threads together: what they branch on is the same word.",
    variants={"slots_in_turns": "Two slots in turns need one barrier a round."},
    one_barrier=Mistake("race", "The next number is written while others still read this one."),
    no_barrier_after_the_write=Mistake("race", "The number is read with no barrier after it is written."),
    first_number_is_not_written=Mistake("unwritten", "The first number is read from a slot that nobody wrote."),
    leaves_before_the_barrier=Mistake("named-barrier", "The second warp leaves the loop a round before the others."),
)
@nvb.kernel("sm_80", threads=128)
def queue(k, counter: I32, x: OUT, count: COUNT, *, mistake=None):
    """One thread takes numbers from a counter, all work on them."""
    wrong, thread, turn = named(mistake), k.thread_id(), k.var(0)
    slots = k.shared(i32, 2, name="slots")
    two = wrong("slots_in_turns")
    with k.loop():
        slot = turn & 1 if two else k.const(0, i32)
        asks = thread == 0
        if wrong("first_number_is_not_written"):
            asks = asks & (turn > 0)
        with k.if_(asks):
            slots[slot] = counter.atomic("add", 1)
        if not wrong("no_barrier_after_the_write"):
            k.barrier.sync()
        work = slots[slot]
        if wrong("leaves_before_the_barrier"):
            k.break_if((thread >= 32) & (thread < 64) & (work + 1 >= count))
        if not two and not wrong("one_barrier"):
            k.barrier.sync()
        k.break_if(work >= count)
        x[work * 128 + thread] = x[work * 128 + thread] + 1.0
        turn += 1


def _transposed(*counts):
    def launch(tiles):
        x = small(tiles, 64 * tiles, 64)
        y = np.ascontiguousarray(x.reshape(tiles, 64, 64).transpose(0, 2, 1))
        return Launch(1, (x, x.copy(), Out(y), tiles))

    return lambda: [launch(tiles) for tiles in counts]


@scene(
    STYLE,
    _transposed(1, 2, 4),
    why="Of two maps of one matrix, the one that swizzles fills the tile that is read by its swizzle.",
    variants={"plain_map_read_row_by_row": "The map without a swizzle fills a tile whose rows are read as they are."},
    plain_map_read_with_the_swizzle=Mistake("swizzle", "The map has no swizzle, the tile is read as if it had 128."),
    swizzled_tile_read_row_by_row=Mistake("swizzle", "The map swizzles, and the tile's rows are read as they are."),
    later_tiles_by_the_plain_map=Mistake("swizzle", "From the second tile on, the map without a swizzle is used."),
    read_before_all_is_there=Mistake("read-before-wait", "The last warp does not wait for the tile."),
    loaded_again_too_early=Mistake("refilled-early", "The next tile is loaded with no barrier after the reads."),
)
@nvb.kernel("sm_90", threads=128)
def swizzled(k, x: MATRIX, plain: PLAIN, y: nvb.Pointer(f16), tiles: COUNT, *, mistake=None):
    """y is each tile of x transposed."""
    wrong, thread = named(mistake), k.thread_id()
    tile = k.shared_tile(TILE, name="tile")
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    row_by_row = wrong("plain_map_read_row_by_row") or wrong("swizzled_tile_read_row_by_row")
    with k.range(tiles) as number:
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, expect_tx=TILE.bytes)
            if wrong("plain_map_read_row_by_row") or wrong("plain_map_read_with_the_swizzle"):
                k.tma.load_box(tile.address, plain, (0, number * 64), full)
            elif wrong("later_tiles_by_the_plain_map"):
                with k.if_(number == 0):
                    k.tma.load_box(tile.address, x, (0, number * 64), full)
                with k.else_():
                    k.tma.load_box(tile.address, plain, (0, number * 64), full)
            else:
                k.tma.load_box(tile.address, x, (0, number * 64), full)
        if wrong("read_before_all_is_there"):
            with k.if_(k.warp_id() < 3):
                k.mbarrier.wait(full, number & 1)
        else:
            k.mbarrier.wait(full, number & 1)
        row = thread % 64
        for pair in range(4):
            chunk = thread // 64 + 2 * pair
            if row_by_row:
                values = tile.address.cast(f16).byte_offset(row * 128 + chunk * 16, align=16).load(8)
            else:
                values = chunk_of(tile, row, chunk).load(8)
            for column, value in enumerate(values):
                y[number * 4096 + (chunk * 8 + column) * 64 + row] = value
        if not wrong("loaded_again_too_early"):
            k.barrier.sync()


def _exchanged(*counts):
    def launch(rounds):
        x = small(rounds, rounds, 4, 32, kind=np.float32)
        pairs = x.reshape(rounds, 2, 2, 32)
        y = (pairs + pairs[:, :, ::-1]).reshape(rounds, 4, 32)
        return Launch(1, (x, Out(y + y[:, ::-1]), rounds))

    return lambda: [launch(rounds) for rounds in counts]


@scene(
    STYLE,
    _exchanged(1, 2, 5),
    why="Each pair of warps meets at its own barrier, whose two uses a round are apart by a barrier of all.",
    variants={"one_id_two_counts": "One barrier is for 128 threads, then for the first pair, with one of all between."},
    one_id_for_both_pairs=Mistake("named-barrier", "Both pairs meet at one barrier of 64 threads."),
    counts_one_warp=Mistake("named-barrier", "The pair's barrier counts 32 threads: nobody waits for the other."),
    counts_three_warps=Mistake("named-barrier", "The pair's barrier counts 96 threads, and 64 come."),
    two_counts_at_once=Mistake(
        "named-barrier", "The first pair's barrier of 64 is that of all 128, with none between."
    ),
    crossed=Mistake("named-barrier", "Two barriers of a pair are met at in opposite order by its warps."),
    one_warp_leaves_out_a_round=Mistake("named-barrier", "The last warp does not meet its pair in the last round."),
    next_round_at_once=Mistake("race", "The next round is written with no barrier of all after the reads."),
)
@nvb.kernel("sm_80", threads=128)
def pairs_of_warps(k, x: OUT, y: OUT, rounds: COUNT, *, mistake=None):
    """y is x plus its neighbour's in the pair, and that of the counterpart in the other pair."""
    wrong, thread = named(mistake), k.thread_id()
    warp, lane = k.warp_id(), k.lane_id()
    words, sums = k.shared(f32, 128, name="words"), k.shared(f32, 128, name="sums")
    pair = warp // 2
    counts = {"counts_one_warp": 32, "counts_three_warps": 96}

    def meet(number):
        if wrong("one_id_two_counts") or wrong("two_counts_at_once"):
            with k.if_(pair == 0):
                k.barrier.sync(1, 64)
            with k.else_():
                k.barrier.sync(2, 64)
        elif wrong("crossed"):
            k.barrier.sync(1 + pair + 2 * (warp & 1), 64)
            k.barrier.sync(3 + pair - 2 * (warp & 1), 64)
        elif wrong("one_warp_leaves_out_a_round"):
            with k.if_((warp < 3) | (number + 1 < rounds)):
                k.barrier.sync(1 + pair, 64)
        else:
            k.barrier.sync(1 if wrong("one_id_for_both_pairs") else 1 + pair, counts.get(mistake, 64))

    def meet_all():
        mixes = wrong("two_counts_at_once") or wrong("one_id_two_counts")
        k.barrier.sync(1 if mixes else 0, 128)
        if wrong("one_id_two_counts"):
            k.barrier.sync(0)

    with k.range(rounds) as number:
        place = number * 128 + thread
        words[thread] = x[place]
        meet(number)
        value = words[thread] + words[thread ^ 32]
        sums[thread] = value
        if wrong("one_id_two_counts"):
            k.barrier.sync(0)
        meet_all()
        y[place] = value + sums[(3 - warp) * 32 + lane]
        if not wrong("next_round_at_once"):
            k.barrier.sync()


def _product():
    a, b = small(1, 32, 16), small(2, 32, 16)
    return [Launch(1, (a, b, Out((a.astype(np.float32) @ b.astype(np.float32).T)[::-1].copy())))]


@scene(
    STYLE,
    _product,
    why="Four warps store the quarters of one matrix, which lie between one another's rows and share no element.",
    rows_are_too_long=Mistake("race", "The rows of a quarter are stored further apart than the quarters are placed."),
    quarters_overlap=Mistake("race", "The second quarter begins inside of the first."),
    variants={"all_store_the_same": "All warps compute and store the first quarter."},
)
@nvb.kernel("sm_80", threads=128)
def quarters(k, a: nvb.Pointer(f16), b: nvb.Pointer(f16), y: OUT, *, mistake=None):
    """y is a times b, mirrored."""
    wrong, thread, warp = named(mistake), k.thread_id(), k.warp_id()
    whole = k.shared(f32, 48 * 32, name="whole", align=128)
    with k.range(thread, 48 * 32, 128) as at:
        whole[at] = 0.0
    k.barrier.sync()
    alike = wrong("all_store_the_same")
    row, column = (0, 0) if alike else (warp // 2 * 16, warp % 2 * 16)
    for quarter in range(4 if alike else 1):
        if alike:
            row, column = quarter // 2 * 16, quarter % 2 * 16
        acc = k.wmma.accumulator("m16n16k16", f32)
        left = k.wmma.load("a", "m16n16k16", f16, (a + row * 16).byte_offset(0, align=32), layout="row", stride=16)
        right = k.wmma.load("b", "m16n16k16", f16, (b + column * 16).byte_offset(0, align=32), layout="col", stride=16)
        acc.set(k.wmma.mma(left, right, acc))
        at = column // 2 if wrong("quarters_overlap") else column
        place = (whole + (row * 32 + at)).byte_offset(0, align=32)
        k.wmma.store(place, acc, stride=40 if wrong("rows_are_too_long") else 32)
    k.barrier.sync()
    with k.range(thread, 1024, 128) as at:
        y[at] = whole[(31 - at // 32) * 32 + at % 32]
