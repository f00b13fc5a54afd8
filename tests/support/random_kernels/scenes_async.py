"""Kernels about the asynchronous engines: TMA, bulk copies, clusters, wgmma and its rings, tcgen05 and its memory."""

from __future__ import annotations

import operator
from typing import Any

import nvbackend as nvb
from nvbackend.intrinsics.row.types import BY_NAME, f32, i32, u32
from nvbackend.layout import gmma_atom, tile_to_shape
from tests.support.random_kernels.scenes_warp import kernel, pointers
from tests.support.random_kernels.writer import Writer
from tests.support.tiled_kernels import tma_boxes

SWIZZLES = tuple(nvb.SwizzleMode)
PRODUCTS = (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("e4m3", "f32"), ("e5m2", "f16"), ("s8", "s32"))
MAPPED = ("f16", "bf16", "f32", "u8", "s32", "u32", "f64", "tf32", "e4m3")


def _layout(w: Writer, rows: int, columns: int, element: Any) -> Any:
    return w.call(nvb.SmemLayout, nvb.Major.K, w.rng.choice(SWIZZLES), element, rows, columns)


def tma(w: Writer, name: str) -> None:
    """A box comes, and goes or is added; coordinates of any kind."""
    element = w.element(*MAPPED)
    rank = w.one(1, 2, 2, 2, 3, 4, 5)
    inner = w.one(16, 32, 64, 128) * 8 // element.bits if not w.odd() else w.one(1, 3, 256, 257)
    box = (*[w.one(1, 2, 8) for _ in range(rank - 2)], *([w.one(8, 16, 64)] if rank > 1 else []), inner)
    kind = w.call(nvb.TensorMap, element, box, w.one(0, 0, 32, 64, 128))
    given = kernel(w, name, ("source", kind), ("target", kind), ("x", nvb.Scalar(i32)))
    if given is None:
        return
    k, (source, target, x) = w.k, given
    tile = w.call(k.shared, w.element("u8"), w.count(kind.bytes), align=w.one(128, 1024, 1024))
    full = w.call(k.mbarrier.array, 1, 1)
    w.call(k.mbarrier.ready)
    if tile is None or full is None:
        return
    place = [w.one(0, 0, x, x * 16, w.number()) for _ in range(rank)]
    policy = {"cache_policy": w.call(k.cache.policy, "evict_first")} if w.chance(0.2) else {}

    def load(_: object) -> None:
        w.call(k.mbarrier.arrive, full, expect_tx=w.count(kind.bytes))
        w.call(k.tma.load_box, tile, source, place, full, **policy)

    w.inside(load, k.one_thread)
    w.call(k.mbarrier.wait, full, w.count(0))

    def store(_: object) -> None:
        if w.chance(0.6):
            w.call(k.tma.store_box, target, place, tile, **policy)
        else:
            w.call(k.tma.reduce_box, target, place, tile, w.one("add", "min", "max", "and", "xor", "inc"))
        w.call(k.tma.commit_group)
        w.call(k.tma.wait_group, w.count(0), reading=w.chance(0.5))

    w.inside(store, k.one_thread)
    if w.chance(0.2):
        w.call(k.tma.prefetch_box, source, place)
        w.call(k.tma.prefetch_maps, source, target)


def tma_tiles(w: Writer, name: str) -> None:
    """A whole tile by the tiled copy of TMA."""
    major = w.rng.choice(list(nvb.Major))
    found = w.call(tma_boxes, major, w.rng.choice(SWIZZLES), w.one((0, 1), (1, 0)), w.chance(0.5))
    if found is None:
        return
    parameter, body = found
    given = kernel(w, name, *pointers("source", "out"), ("map", parameter))
    if given is not None:
        w.call(body, w.k, *given)


def bulk(w: Writer, name: str) -> None:
    """Bulk copies to and from global memory and to a peer, and stores that arrive."""
    given = kernel(w, name, *pointers("a", "b"), threads=128, cluster=w.one(1, 2, 2, 4))
    if given is None:
        return
    k, (a, b) = w.k, given
    size = w.count(512, 1024, 2048, 16)
    tile, other = (w.call(k.shared, f32, 512, align=128, name=one) for one in ("mine", "theirs"))
    full = w.call(k.mbarrier.array, 2, 1)
    w.call(k.mbarrier.ready)
    if tile is None or other is None or full is None:
        return

    def load(_: object) -> None:
        w.call(k.mbarrier.arrive, full, expect_tx=size)
        w.call(k.bulk.load, tile, a, size, full, **w.one({}, {}, {"multicast_mask": 3}, {"space": "cta"}))

    w.inside(load, k.one_thread)
    w.call(k.mbarrier.wait, full, 0)
    match w.rng.randrange(4):
        case 0:
            w.call(k.bulk.store, b, tile, size, **w.one({}, {"byte_mask": 255}))
            w.call(k.tma.commit_group)
            w.call(k.tma.wait_group)
        case 1:
            w.call(k.bulk.reduce, b, tile, size, w.one("add", "min", "max", "and"), w.element("f32", "s32", "u64"))
            w.call(k.tma.commit_group)
            w.call(k.tma.wait_group)
        case 2:
            second = w.call(operator.add, full, 1)
            w.inside(lambda _: w.call(k.mbarrier.arrive, second, expect_tx=size), k.one_thread)
            w.inside(
                lambda _: w.call(k.bulk.store, other, tile, size, barrier=second, rank=k.cluster.peer_rank()),
                k.one_thread,
            )
            w.call(k.mbarrier.wait, second, 0)
            w.call(k.cluster.sync)
        case 3:
            thread = w.call(k.thread_id)
            second = w.call(operator.add, full, 1)
            w.inside(lambda _: w.call(k.mbarrier.arrive, second, expect_tx=w.threads * 4), k.one_thread)
            value = w.call(k.const, 1.0, f32)
            w.call(k.async_store.store, w.call(operator.add, other, thread), [value], second, k.cluster.peer_rank())
            w.call(k.mbarrier.wait, second, 0)
            w.call(k.cluster.sync)


def peers(w: Writer, name: str) -> None:
    """Addresses of peers, arrivals at their barriers, ranks."""
    given = kernel(w, name, *pointers("a"), threads=64, cluster=w.one(2, 4, 8, 1))
    if given is None:
        return
    k, (a,) = w.k, given
    tile, barrier = w.call(k.shared, u32, 64), w.call(k.mbarrier.array, 1, w.count(64, 1, 2))
    w.call(k.mbarrier.ready)
    if tile is None or barrier is None:
        return
    rank = w.operand(u32) if w.chance(0.3) else w.call(k.cluster.peer_rank)
    mapped = w.call(k.cluster.map_to_peer, w.call(lambda: tile.bytes), rank)
    if mapped is not None:
        w.keep(w.call(k.cluster.rank_of, mapped))
        address = w.call(k.shared_address, mapped, u32, 4)
        if address is not None and w.chance(0.5):
            w.put(a.cast(u32), 0, w.call(operator.getitem, address, 0))
    first = w.call(operator.eq, w.call(k.thread_id), 0)
    w.call(k.mbarrier.arrive, barrier, rank=rank, when=w.one(first, first, True))
    w.call(k.mbarrier.wait, barrier, 0)
    w.call(k.cluster.sync)


def wgmma(w: Writer, name: str) -> None:
    """Tiles by TMA, multiplied by a tiled wgmma in one region or several."""
    kind, total = w.rng.choice(PRODUCTS)
    element, n = BY_NAME[kind], w.one(8, 16, 64, 96, 128, 256, 0, 12)
    request = w.call(nvb.wgmma.mma_async, f"m64n{n}k{256 // element.bits}", element, element, BY_NAME[total])
    given = kernel(w, name, *pointers("out"), ("n", nvb.Scalar(i32)), threads=w.one(128, 128, 256))
    if request is None or given is None:
        return
    k, (out, count) = w.k, given
    mma = w.call(k.tiled_mma, request)
    if mma is None:
        return
    depth = w.count(64, 32, 128)
    tiles = [w.call(one, depth, *w.one((), (nvb.Major.K, w.rng.choice(SWIZZLES)))) for one in (mma.smem_a, mma.smem_b)]
    if None in tiles:
        return
    a, b = (w.call(k.shared_tile, one, name=key) for one, key in zip(tiles, "ab", strict=True))
    acc = w.call(mma.accumulator)
    if None in (a, b, acc):
        return
    in_flight = w.one(0, 0, 1)

    def region(_: object) -> None:
        w.inside(lambda _: w.call(mma.accumulate, acc, a, b), k.wgmma.group, in_flight)

    w.call(w.one(acc.clear, acc.clear, lambda: acc.fill(0)))
    if w.chance(0.5):
        w.inside(region, k.range, w.one(count, 4, 0))
    else:
        region(None)
    if in_flight or w.odd():
        w.call(k.wgmma.wait_group, w.count(0), **w.one({}, {"drains": [acc]}))
    w.call(k.store_accumulator, acc, out.cast(BY_NAME[total]), w.one(n, count))


def ring(w: Writer, name: str) -> None:
    """A producer, consumers, and a ring of stages between them."""
    n, depth = w.one(64, 128, 256), 64
    consumers = w.one(1, 2)
    element = BY_NAME[w.one("f16", "bf16")]
    request = nvb.wgmma.mma_async(f"m64n{n}k16", element, element, f32)
    boxes = [nvb.TensorMap(element, (rows, depth)) for rows in (64 * consumers, n)]
    cluster = w.one(1, 1, 2)
    parameters = [("a", boxes[0]), ("b", boxes[1]), *pointers("out"), ("steps", nvb.Scalar(i32))]
    given = kernel(w, name, *parameters, threads=128 * (1 + consumers), cluster=cluster, min_ctas=w.one(1, None))
    if given is None:
        return
    k, (a, b, out, steps) = w.k, given
    mma = w.call(k.tiled_mma, request, (consumers, 1))
    if mma is None:
        return
    stages = w.count(2, 3, 4)
    tiles = {"a": w.call(mma.smem_a, depth), "b": w.call(mma.smem_b, depth)}
    found = w.call(k.pipeline, stages, consumers, multicast=w.chance(0.2), **tiles)
    w.call(k.mbarrier.ready)
    if found is None:
        return
    loads = lambda stage: [w.call(k.tma.load, one, source, (0, 0), stage.full) for one, source in _both(stage, a, b)]  # noqa: E731
    produce = lambda _: w.inside(lambda _: w.inside(loads, found.fill), k.range, steps)  # noqa: E731
    w.inside(produce, k.producer, w.one(24, 40, 56))
    in_flight = w.one(0, 1)

    def consume(warpgroup: Any) -> None:
        acc = w.call(mma.accumulator)
        if acc is None:
            return
        multiply = lambda stage: w.call(mma.accumulate, acc, stage.a, stage.b, warpgroup)  # noqa: E731
        step = lambda stage: w.inside(lambda _: multiply(stage), k.wgmma.group, in_flight)  # noqa: E731
        w.call(acc.clear)
        w.inside(lambda _: w.inside(step, found.drain, in_flight), k.range, steps)
        w.call(k.wgmma.wait_group, 0, drains=[acc])
        if in_flight:
            w.call(found.release)
        w.call(mma.store, acc, out, n, warpgroup)

    w.inside(consume, k.consumers, w.one(160, 232, 240))
    if cluster > 1:
        w.call(k.cluster.sync)


def _both(stage: Any, a: Any, b: Any) -> list[tuple[Any, Any]]:
    return [(stage.a, a), (stage.b, b)]


def tcgen05(w: Writer, name: str) -> None:
    """Tensor memory allocated, multiplied into, read, given back."""
    given = kernel(w, name, *pointers("out"), ("n", nvb.Scalar(i32)), threads=w.one(128, 128, 160, 256))
    if given is None:
        return
    k, (out, count) = w.k, given
    kind, element = w.one(("f16", "f16"), ("f16", "bf16"), ("tf32", "tf32"), ("f8f6f4", "e4m3"), ("i8", "s8"))
    m, n = w.count(64, 128, 128, 256), w.count(64, 128, 256, 8)
    total = BY_NAME["s32" if kind == "i8" else "f32"]
    request = w.call(nvb.Tcgen05Request, kind)
    types = {"a": BY_NAME[element], "b": BY_NAME[element], "d": total}
    shape = w.call(nvb.InstructionDescriptor, kind=kind, m=m, n=n, **types)
    layouts = [_layout(w, rows, 1024 // BY_NAME[element].bits, BY_NAME[element]) for rows in (m, n)]
    if None in (request, shape, *layouts):
        return
    a, b = (w.call(k.shared_tile, one, name=key) for one, key in zip(layouts, "ab", strict=True))
    done = w.call(k.mbarrier.array, 1, 1)
    w.call(k.mbarrier.ready)
    if None in (a, b, done):
        return

    def use(tmem: Any) -> None:
        def issue(_: object) -> None:
            step = 256 // BY_NAME[element].bits
            for column in range(0, w.one(1, 4) * step, step):
                options = {"a_at": (0, column), "b_at": (0, column), "accumulate": w.one(column > 0, count > 0)}
                w.call(k.tcgen05.mma, request, tmem, a, b, shape, **options)
            w.call(k.tcgen05.commit, done)

        w.inside(issue, k.one_thread)
        w.call(k.mbarrier.wait, done, 0)
        w.call(k.tcgen05.fence_after_thread_sync)
        lanes = w.call(tmem.lanes, w.call(k.warp_id) * 32)
        load = w.call(k.tcgen05.ld, lanes, w.one("32x32b", "32x32b", "16x64b", "16x256b"), w.count(1, 8, 16, 32, 64))
        if load is not None:
            w.call(k.tcgen05.wait_ld, load)
            w.put(out.cast(u32), w.call(k.thread_id), load.values[0])
        w.call(k.tcgen05.fence_before_thread_sync)

    w.inside(use, k.tcgen05.tmem, w.count(32, 64, 128, 256, 512, 100), **w.one({}, {}, {"cta_group": 2}, {"warp": 1}))


def gmma_tiles(w: Writer, name: str) -> None:
    """Canonical layouts of any mode over any tile, as descriptors and as tensors of shared memory."""
    given = kernel(w, name, *pointers("out"))
    if given is None:
        return
    k, element = w.k, w.element("f16", "e4m3", "f32", "bf16")
    atom = w.call(gmma_atom, w.rng.choice(list(nvb.Major)), w.rng.choice(SWIZZLES), element)
    layout = w.call(tile_to_shape, atom, w.one((64, 64), (128, 64), (8, 8), (100, 64)), w.one((0, 1), (1, 0)))
    memory = w.call(k.shared, element, w.count(8192, 4096), align=1024)
    if layout is None or memory is None:
        return
    tensor = w.call(k.tensor, memory, layout)
    if tensor is not None:
        w.keep(w.call(operator.getitem, tensor, (w.call(k.thread_id) % 64, w.operand(i32))))
    tile = w.call(k.shared_tile, _layout(w, 64, 64, element))
    if tile is not None:
        w.keep(w.call(k.wgmma.smem_descriptor, tile, row=w.count(0, 8), column=w.count(0, 16, 64)))


SCENES = (tma, tma, tma_tiles, bulk, peers, wgmma, wgmma, ring, tcgen05, gmma_tiles)
