"""Kernels about one thing that warps of every chip have: fragments, tiled copies, rings of cp.async, mbarriers."""

from __future__ import annotations

import functools
import operator
from typing import Any

import nvbackend as nvb
from nvbackend.atoms import MmaAtom, known_atoms
from nvbackend.intrinsics.row.types import BY_NAME, f16, f32, i32, s32, u32
from nvbackend.layout import Layout
from nvbackend.tiled import make_tiled_copy, make_tiled_mma, universal_copy
from tests.support.random_kernels.writer import Writer
from tests.support.tiled_kernels import through_matrices, through_registers
from tests.support.warp_mma import Case

WMMA_SHAPES = ("m16n16k16", "m8n32k16", "m32n8k16", "m16n16k8", "m8n8k4", "m8n8k32", "m8n8k128")


def kernel(w: Writer, name: str, *parameters: tuple[str, Any], **bounds: Any) -> list[Any] | None:
    """Starts a kernel with these parameters; its arguments."""
    given = [nvb.Parameter(key, kind) for key, kind in parameters]
    w.threads = bounds.setdefault("threads", 128)
    w.k = w.call(nvb.KernelBuilder, name, w.target, parameters=given, **bounds)
    return None if w.k is None else w.k.arguments


def pointers(*names: str, **types: Any) -> list[tuple[str, Any]]:
    return [(name, nvb.Pointer(types.get(name, f32))) for name in names]


def wmma(w: Writer, name: str) -> None:
    """Fragments loaded, multiplied in a loop or out of one, stored."""
    given = kernel(w, name, *pointers("a", "b", "c"), ("n", nvb.Scalar(i32)), threads=w.one(32, 64, 128))
    if given is None:
        return
    k, (a, b, c, n) = w.k, given
    kind, sum_ = w.one(("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("s8", "s32"), ("tf32", "f32"), ("f64", "f64"))
    shape, element, total = w.rng.choice(WMMA_SHAPES), BY_NAME[kind], BY_NAME[sum_]
    layouts = w.one("row", "col"), w.one("row", "col")
    stride = w.count(16, 32, 40, 64, 20)
    parts = []
    for fragment, source, layout in zip("ab", (a, b), layouts, strict=True):
        options = {"layout": layout, "stride": stride}
        parts.append(w.call(k.wmma.load, fragment, shape, element, source.cast(element), **options))
    if None in parts:
        return
    acc = w.call(k.wmma.accumulator, shape, total)
    if acc is None:
        return

    def multiply(_: object) -> None:
        product = w.call(k.wmma.mma, *parts, acc, **w.one({}, {}, {"satfinite": True}))
        if product is not None:
            w.call(acc.set, product)

    if w.chance(0.5):
        w.inside(multiply, k.range, n)
    else:
        multiply(None)
    w.call(k.wmma.store, c.cast(total), acc, layout=w.one("row", "col"), stride=w.one(stride, n))


@functools.cache
def _atoms() -> tuple[MmaAtom, ...]:
    return tuple(one for one in known_atoms() if one.row.family == "mma")


def tiled_mma(w: Writer, name: str) -> None:
    """C = A B^T of one CTA by any atom of mma.sync, over a random arrangement of warps."""
    atom = w.rng.choice(_atoms())
    m, n, depth = atom.shape
    warps = w.one((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (1, 1, 2))
    mma = w.call(make_tiled_mma, atom, warps)
    if mma is None:
        return
    extents = (m * warps[0] * w.one(1, 2), n * warps[1] * w.one(1, 2), depth * warps[2] * w.one(1, 2))
    case = Case(mma, extents, w.chance(0.4), w.target.name)
    builder = functools.partial(_named, w, name)
    w.call(case.kernel, builder)


def _named(w: Writer, name: str, _: str, *args: Any, **kwargs: Any) -> Any:
    w.k = nvb.KernelBuilder(name, *args, **kwargs)
    return w.k


def tiled_copies(w: Writer, name: str) -> None:
    """A matrix through shared memory by tiled copies of any width."""
    given = kernel(w, name, *pointers("a", "b"))
    if given is None:
        return
    if w.chance(0.5):
        element = w.element("f16", "f32", "u8", "s32", "bf16")
        body = w.call(through_registers, element, w.one(16, 32, 64, 128))
    else:
        body = w.call(through_matrices, w.one(1, 2, 4), w.chance(0.5), w.one("A", "C"))
    if body is not None:
        w.call(body, w.k, *given)


def steps_ring(w: Writer, name: str) -> None:
    """Tiles by cp.async some steps ahead, summed."""
    given = kernel(w, name, *pointers("a", "b", a=f16), ("steps", nvb.Scalar(i32)))
    if given is None:
        return
    k, (a, b, steps) = w.k, given
    rows, columns = w.one(32, 64), w.one(32, 64)
    plain = Layout((rows, columns), (columns, 1))
    ring = w.call(k.pipeline, w.count(2, 3, 4), copies="cp.async", x=(f16, plain))
    threads = Layout((128 // (columns // 8), columns // 8), (columns // 8, 1))
    fill = w.call(make_tiled_copy, w.call(nvb.tiled.cp_async_copy, f16, cache="cg"), threads, Layout((1, 8)))
    if ring is None or fill is None:
        return

    def fetch(step: Any, stage: Any) -> None:
        k.copy_tile(fill, k.tensor(a + step * (rows * columns), plain), stage.x)

    def use(found: Any) -> None:
        _, stage = found
        value = w.call(operator.getitem, stage.x, (w.call(k.thread_id) % rows, w.one(0, 1, columns - 1)))
        if value is not None:
            w.call(operator.setitem, b, w.call(k.thread_id), value.to(f32))

    w.inside(use, ring.steps, w.one(steps, steps, 4, 0), fetch)


def register_tensors(w: Writer, name: str) -> None:
    """Register tensors and tensors of memory with random layouts, element by element and by copies."""
    given = kernel(w, name, *pointers("a", "b"))
    if given is None:
        return
    k, (a, b) = w.k, given
    shape = w.one((4,), (2, 4), (4, 4), ((2, 2), 2), (1,), (3, 5), w.rng.choice((0, -1, 1 << 14, (3, -1))))
    made = w.call(k.register_tensor, w.element("f32", "f16", "s32", "u8", "f64"), shape)
    layout = w.call(Layout, w.one((8, 16), (4, 4, 8), (128,)), *w.one((), (), ((1, 8),), ((16, 1),), ((0, 1),)))
    if made is None or layout is None:
        return
    w.call(made.clear)
    memory = w.call(k.tensor, a.cast(made.element), layout)
    if memory is not None:
        w.keep(w.call(operator.getitem, memory, w.one(w.operand(s32), (w.operand(s32), w.operand(s32)))))
    copy = w.call(make_tiled_copy, w.call(universal_copy, made.element, w.one(8, 16, 32, 64, 128)), layout, layout)
    if copy is not None:
        w.call(k.copy_tile, copy, memory, w.call(k.tensor, b.cast(made.element), layout))


def mbarriers(w: Writer, name: str) -> None:
    """Threads that arrive and wait, in rounds."""
    given = kernel(w, name, *pointers("a"), ("n", nvb.Scalar(i32)), threads=w.one(32, 128, 256))
    if given is None:
        return
    k, (a, n) = w.k, given
    count = w.count(1, 1, 2, 3)
    barriers = w.call(k.mbarrier.array, count, w.count(w.threads, w.threads, w.threads, 1))
    w.call(k.mbarrier.ready)
    if barriers is None:
        return
    places = [w.call(operator.add, barriers, index) for index in range(count)] if isinstance(count, int) else []

    def round_(step: Any) -> None:
        for place in [one for one in places if one is not None]:
            match w.rng.randrange(4):
                case 0:
                    w.keep(w.call(k.mbarrier.arrive, place, state=True))
                case _:
                    w.call(k.mbarrier.arrive, place)
            parity = w.call(operator.and_, step, 1) if not isinstance(step, int) else step & 1
            w.call(k.mbarrier.wait, place, w.one(parity, parity, parity, w.operand(s32)))
        w.call(operator.setitem, a, w.call(k.thread_id), 1.0)

    if w.chance(0.5):
        w.inside(round_, k.range, w.one(n, 3, 4))
    else:
        round_(0)


def matrices(w: Writer, name: str) -> None:
    """ldmatrix, stmatrix, movmatrix, and mma.sync of any request on what was loaded."""
    given = kernel(w, name, *pointers("a", "b"))
    if given is None:
        return
    k, (a, _) = w.k, given
    tile = w.call(k.shared, f16, 64 * 64, align=w.one(16, 128, 1024))
    thread = w.call(k.thread_id)
    if tile is None or thread is None:
        return
    for index in range(4):
        w.call(operator.setitem, tile, thread * 4 + index, w.number(f16))
    w.call(k.barrier.sync)
    lane = w.call(tile.byte_offset, (thread % 32) * 16)
    loaded = w.call(k.mma.ldmatrix, lane, w.count(1, 2, 4), transposed=w.chance(0.3))
    words = loaded or [k.const(1, u32)]
    if w.chance(0.3):
        moved = w.call(k.mma.movmatrix, words[0])
        words = words[:1] if moved is None else [moved]
    a_, b_, d = w.one(("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("s8", "u8", "s32"), ("e4m3", "e5m2", "f32"))
    shape = w.one("m16n8k16", "m16n8k8", "m16n8k32", "m8n8k4")
    request = w.call(nvb.mma.sync, shape, BY_NAME[a_], BY_NAME[b_], BY_NAME[d])
    if request is not None:
        total = [k.const(0, BY_NAME[d]) for _ in range(4)]
        many = (words * 4)[:4]
        w.keep(w.call(k.mma.sync, request, many, many[: w.one(1, 2, 2)], total))
    w.call(k.barrier.sync)
    w.call(k.mma.stmatrix, lane, words, transposed=w.chance(0.3))
    w.call(operator.setitem, a.cast(u32), thread, words[0])


SCENES = (wmma, tiled_mma, tiled_copies, steps_ring, register_tensors, mbarriers, matrices)
