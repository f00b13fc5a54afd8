"""The fifth-generation tensor core by single operations: accumulators in turns, A in tensor memory, pairs, queues."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32, u32, u64

ROWS = SmemLayout(Major.K, SwizzleMode.B128, f16, 128, 64)
HALF = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
VALUES = SmemLayout(Major.MN, SwizzleMode.B128, f16, 64, 128)
MATRIX = nvb.TensorMap(f16, box=(128, 64))
PART = nvb.TensorMap(f16, box=(64, 64))
MMA = nvb.Tcgen05Request("f16")
SHAPE = nvb.InstructionDescriptor(kind="f16", m=128, n=128, a=f16, b=f16, d=f32)
F32 = nvb.Pointer[f32]


def _multiply(k, d, a, b, *, first, request=MMA, shape=SHAPE):
    for column in range(0, 64, 16):
        more = first if column == 0 else True
        k.tcgen05.mma(request, d, a, b, shape, a_at=(0, column), b_at=(0, column), accumulate=more)


def _read(k, tmem, width):
    """The warp's lanes of `width` columns, as f32."""
    load = k.tcgen05.ld(tmem.lanes(k.warp_id() * 32), "32x32b", width)
    k.tcgen05.wait_ld(load)
    return [value.bitcast(f32) for value in load.values]


def _store(out, values):
    for place in range(0, len(values), 4):
        (out + place).store(*values[place : place + 4])


@nvb.kernel("sm_100a", threads=192, min_ctas=1)
def accumulators_in_turns(k, a: MATRIX, b: MATRIX, c: F32, tiles: i32, steps: i32):
    """Persistent: the epilogue reads one accumulator while the next tile is multiplied into the other."""
    stages = 4
    ta, tb = (k.shared_tiles(ROWS, stages, name=name) for name in "ab")
    full, empty = (k.mbarrier.array(stages, arrivals=1, name=name) for name in ("full", "empty"))
    done, free = k.mbarrier.array(2, arrivals=1, name="done"), k.mbarrier.array(2, arrivals=128, name="free")
    k.mbarrier.ready()
    mine = lambda: k.range(k.block_id(), tiles, k.block_count())  # noqa: E731
    with k.tcgen05.tmem(256) as tmem:
        with k.one_thread(4):
            turn = k.var(0)
            with mine() as tile, k.range(steps) as step:
                stage = turn % stages
                k.mbarrier.wait(empty + stage, (turn // stages & 1) ^ 1)
                k.mbarrier.arrive(full + stage, expect_tx=2 * ROWS.bytes)
                k.tma.load(ta.at(stage), a, (tile * 128, step * 64), full + stage)
                k.tma.load(tb.at(stage), b, (0, step * 64), full + stage)
                turn += 1
        with k.one_thread(5):
            turn, count = k.var(0), k.var(0)
            with mine():
                which = count & 1
                k.mbarrier.wait(free + which, (count >> 1 & 1) ^ 1)
                k.tcgen05.fence_after_thread_sync()
                with k.range(steps) as step:
                    stage = turn % stages
                    k.mbarrier.wait(full + stage, turn // stages & 1)
                    _multiply(k, tmem.columns(which * 128, 128), ta.at(stage), tb.at(stage), first=step > 0)
                    k.tcgen05.commit(empty + stage)
                    turn += 1
                k.tcgen05.commit(done + which)
                count += 1
        with k.if_(k.warp_id() < 4):
            count = k.var(0)
            with mine() as tile:
                which = count & 1
                k.mbarrier.wait(done + which, count >> 1 & 1)
                k.tcgen05.fence_after_thread_sync()
                for half in (0, 64):
                    values = _read(k, tmem.columns(which * 128 + half, 64), 64)
                    if half:
                        k.tcgen05.fence_before_thread_sync()
                        k.mbarrier.arrive(free + which)
                    _store(c + ((tile * 128 + k.thread_id()) * 128 + half), values)
                count += 1


@nvb.kernel("sm_100a", threads=192)
def stage_given_back_late(k, a: MATRIX, b: MATRIX, c: F32):
    """The commit that gives the first stage back comes long after its product: the next copy begins between them."""
    ta, tb = (k.shared_tiles(ROWS, 2, name=name) for name in "ab")
    full = k.mbarrier.array(2, arrivals=1, name="full")
    issued, empty, done = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("issued", "empty", "done"))
    k.mbarrier.ready()

    def load(step):
        stage = step % 2
        k.mbarrier.arrive(full + stage, expect_tx=2 * ROWS.bytes)
        k.tma.load(ta.at(stage), a, (0, step * 64), full + stage)
        k.tma.load(tb.at(stage), b, (0, step * 64), full + stage)

    with k.tcgen05.tmem(128) as tmem:
        with k.one_thread(4):
            load(0)
            k.mbarrier.wait(issued, 0)
            load(1)
            k.mbarrier.wait(empty, 0)
            load(2)
        with k.one_thread(5):
            for step in range(3):
                stage = step % 2
                k.mbarrier.wait(full + stage, step // 2)
                if step == 1:
                    k.tcgen05.commit(empty)
                _multiply(k, tmem, ta.at(stage), tb.at(stage), first=step > 0)
                if step == 0:
                    k.mbarrier.arrive(issued)
            k.tcgen05.commit(done)
        with k.if_(k.warp_id() < 4):
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            for half in (0, 64):
                _store(c + (k.thread_id() * 128 + half), _read(k, tmem.columns(half, 64), 64))


@nvb.kernel("sm_100a", threads=160)
def weights_in_tensor_memory(k, q: MATRIX, keys: MATRIX, values: MATRIX, c: F32):
    """exp2(Q K^T) V: the epilogue's warps write the weights to tensor memory, where the second product reads its A."""
    request = nvb.Tcgen05Request("f16", a_in_tmem=True)
    shape = nvb.InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32, transpose_b=True)
    tq, tk, tv = k.shared_tile(ROWS, name="q"), k.shared_tile(ROWS, name="k"), k.shared_tile(VALUES, name="v")
    full, scored, done = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "scored", "done"))
    weighed = k.mbarrier.array(1, arrivals=128, name="weighed")
    k.mbarrier.ready()
    with k.tcgen05.tmem(256) as tmem:
        scores, weights, out = tmem.columns(0, 128), tmem.columns(128, 64), tmem.columns(192, 64)
        with k.one_thread(4):
            k.mbarrier.arrive(full, expect_tx=3 * ROWS.bytes)
            k.tma.load(tq, q, (0, 0), full)
            k.tma.load(tk, keys, (0, 0), full)
            k.tma.load(tv, values, (0, 0), full)
            k.mbarrier.wait(full, 0)
            _multiply(k, scores, tq, tk, first=False)
            k.tcgen05.commit(scored)
            k.mbarrier.wait(weighed, 0)
            k.tcgen05.fence_after_thread_sync()
            for step in range(8):
                part = weights.columns(8 * step, 8)
                k.tcgen05.mma(request, out, part, tv, shape, b_at=(0, 16 * step), accumulate=step > 0)
            k.tcgen05.commit(done)
        with k.if_(k.warp_id() < 4):
            k.mbarrier.wait(scored, 0)
            k.tcgen05.fence_after_thread_sync()
            for half in (0, 64):
                found = [k.math.exp2(value) for value in _read(k, scores.columns(half, 64), 64)]
                pairs = zip(found[::2], found[1::2], strict=True)
                words = [k.convert.pack("f16x2", low, high).bitcast(nvb.u32) for low, high in pairs]
                k.tcgen05.st(weights.columns(half // 2, 32).lanes(k.warp_id() * 32), "32x32b", words)
            k.tcgen05.wait_st()
            k.tcgen05.fence_before_thread_sync()
            k.mbarrier.arrive(weighed)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            _store(c + k.thread_id() * 64, _read(k, out, 64))


@nvb.kernel("sm_100a", threads=128, cluster=2)
def pair_of_ctas(k, a: MATRIX, b: PART, c: F32, steps: i32):
    """256 rows over two CTAs: each loads its half of A and of B, the first one multiplies for both."""
    stages = 2
    request = nvb.Tcgen05Request("f16", cta_group=2)
    shape = nvb.InstructionDescriptor(kind="f16", m=256, n=128, a=f16, b=f16, d=f32)
    ta, tb = k.shared_tiles(ROWS, stages, name="a"), k.shared_tiles(HALF, stages, name="b")
    full, empty = k.mbarrier.array(stages, arrivals=2, name="full"), k.mbarrier.array(stages, arrivals=1, name="empty")
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    rank = k.cluster.rank()
    with k.tcgen05.tmem(128, cta_group=2) as tmem:

        def wait_until_empty(step):
            k.mbarrier.wait(empty + step % stages, (step // stages & 1) ^ 1)

        with k.one_thread(0):
            with k.range(steps) as step:
                stage = step % stages
                wait_until_empty(step)
                bytes_here = ROWS.bytes + HALF.bytes
                k.mbarrier.arrive(full + stage, rank=0, expect_tx=bytes_here, qualifiers=("release", "cluster"))
                first = k.shared_address(k.cluster.map_to_peer((full + stage).bytes, 0), u64, 8)
                k.tma.load_box(ta.at(stage).address, a, (step * 64, rank * 128), first, cta_group=2)
                k.tma.load_box(tb.at(stage).address, b, (step * 64, rank * 64), first, cta_group=2)
            with k.range(steps, steps + stages) as step:  # the peer's last commits arrive before this CTA ends
                wait_until_empty(step)
        with k.one_thread(1), k.if_(rank == 0):
            with k.range(steps) as step:
                stage = step % stages
                k.mbarrier.wait(full + stage, step // stages & 1)
                _multiply(k, tmem, ta.at(stage), tb.at(stage), first=step > 0, request=request, shape=shape)
                k.tcgen05.commit(empty + stage, cta_group=2, multicast_mask=0b11)
            k.tcgen05.commit(done, cta_group=2, multicast_mask=0b11)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()
        for half in (0, 64):
            _store(c + ((rank * 128 + k.thread_id()) * 128 + half), _read(k, tmem.columns(half, 64), 64))


@nvb.kernel("sm_100a", threads=128)
def work_of_clusters_that_have_not_started(k, x: F32):
    answer = k.shared(u32, 4, align=16, name="answer")
    asked = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    block, phase = k.var(k.block_id()), k.var(0)
    with k.loop():
        with k.if_(k.thread_id() == 0):
            k.mbarrier.arrive(asked, expect_tx=16)
            k.launch_control.try_cancel(answer, asked)
        place = block * 128 + k.thread_id()
        x[place] = x[place] * 2.0
        k.mbarrier.wait(asked, phase)
        phase ^= 1
        more, (first, _, _) = k.launch_control.canceled_cluster(answer)
        k.fence.proxy_async()
        k.barrier.sync()
        k.break_if(~more)
        block.set(first.to(i32))
