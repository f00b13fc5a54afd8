"""Random statements on memory: addresses, accesses of all widths, atomics, shared arrays, caches, cp.async."""

from __future__ import annotations

import operator

from nvbackend.builder.core.memory import GLOBAL_SPACE, SHARED_SPACE
from nvbackend.intrinsics.row.types import s32, s64, u32
from tests.support.random_kernels.writer import Writer

STORED = ("f32", "f32", "s32", "u32", "f16", "bf16", "f64", "s64", "u64", "u8", "s8", "u16", "s16")
ALIGNMENTS = (1, 2, 4, 8, 16, 32, 128, 1024)


def place(w: Writer, space: int = GLOBAL_SPACE) -> object:
    """An address in a space, moved by something."""
    found = w.address(space)
    if not hasattr(found, "byte_offset"):
        return None
    match w.rng.randrange(6):
        case 0:
            return found
        case 1:
            return w.call(found.cast, w.element(*STORED))
        case 2:
            align = {"align": w.one(*ALIGNMENTS)} if w.chance(0.2) else {}
            step = w.number(s32) if w.chance(0.3) else w.value(w.element("s32", "u32", "s64", "u8"))
            return w.call(found.byte_offset, step, **align)
        case _:
            return w.call(operator.add, found, w.operand(w.element("s32", "s32", "u32", "s64", "u16", "u8")))


def load(w: Writer) -> None:
    """One element or several of global memory."""
    found = place(w)
    if not hasattr(found, "load"):
        return
    if w.chance(0.5):
        w.keep(w.call(operator.getitem, found, w.operand(s32)))
    else:
        w.keep(w.call(found.load, w.count(1, 1, 2, 4, 8, 16)))


def store(w: Writer) -> None:
    """One element or several to global memory."""
    found = place(w)
    if not hasattr(found, "store"):
        return
    element = getattr(found, "element", s32)
    if w.chance(0.5):
        w.call(operator.setitem, found, w.operand(s32), w.operand(element))
    else:
        w.call(found.store, *[w.operand(element) for _ in range(w.one(1, 1, 2, 4, 8, 3))])


def atomic(w: Writer) -> None:
    found = place(w)
    if hasattr(found, "atomic"):
        operation = w.one("add", "add", "min", "max", "exch", "and", "or", "xor", "inc")
        w.keep(w.call(found.atomic, operation, w.operand(getattr(found, "element", s32))))


def kept(w: Writer) -> None:
    """An address that later statements use."""
    w.keep(place(w, w.one(GLOBAL_SPACE, GLOBAL_SPACE, SHARED_SPACE)))


def converted(w: Writer) -> None:
    """An address as a number, or an address of a number."""
    found = w.address(w.one(GLOBAL_SPACE, SHARED_SPACE))
    if hasattr(found, "bytes"):
        number = w.call(lambda: found.bytes)
        w.keep(number)
        if found.space == SHARED_SPACE and w.chance(0.5):
            w.keep(w.call(w.k.generic_address, found))
        if found.space == SHARED_SPACE and w.chance(0.3) and number is not None:
            w.keep(w.call(w.k.shared_address, number, w.element(*STORED), w.one(*ALIGNMENTS)))


def shared(w: Writer) -> None:
    """An array in shared memory, each thread's element written, read by another behind a barrier."""
    k, element = w.k, w.element(*STORED)
    options = {"align": w.one(*ALIGNMENTS)} if w.chance(0.4) else {}
    if w.chance(0.4):
        options["name"] = w.one("buffer", "x y", "a.b", "shared", '"', "é")
    call = k.shared if w.chance(0.8) else k.shared_static
    array = w.call(call, element, w.count(w.threads, w.threads, 2 * w.threads, 1024, 1, 7), **options)
    if array is None:
        return
    w.keep(array)
    thread = w.call(k.thread_id)
    w.call(operator.setitem, array, thread, w.operand(element))
    if not w.divergent and w.chance(0.9):
        w.call(k.barrier.sync)
        other = w.call(operator.xor, thread, w.one(1, 2, 31, 16))
        w.keep(w.call(operator.getitem, array, other))
        w.call(k.barrier.sync)


def anywhere(w: Writer) -> None:
    """Shared memory as it comes: the analyses may well refuse it."""
    found = place(w, SHARED_SPACE)
    if not hasattr(found, "load"):
        return
    match w.rng.randrange(4):
        case 0:
            w.keep(w.call(found.load, w.count(1, 2, 4, 8)))
        case 1:
            w.call(found.store, *[w.operand(getattr(found, "element", s32)) for _ in range(w.one(1, 2, 4))])
        case 2:
            w.keep(w.call(found.atomic, w.one("add", "max", "xor"), w.operand(getattr(found, "element", s32))))
        case 3:
            w.call(w.k.bulk.clear_shared, found, w.operand(s32))


def cached(w: Writer) -> None:
    """Prefetches, hints and policies."""
    k = w.k
    match w.rng.randrange(6):
        case 0:
            w.call(k.cache.prefetch, place(w), w.one("L1", "L2"))
        case 1:
            w.call(k.cache.prefetch, place(w), w.one("L1", "L2", "L2::evict_last"))
        case 2:
            w.keep(
                w.call(k.cache.policy, w.one("evict_last", "evict_first", "evict_normal"), fraction=w.one(None, 0.5))
            )
        case 3:
            w.call(w.one(k.cache.discard, k.cache.apply_priority), place(w))
        case 4:
            w.call(k.fence.thread, w.one("acq_rel", "sc"), w.one("cta", "gpu", "sys", "cluster"))
        case 5:
            w.call(k.nanosleep, w.operand(u32))


def async_copy(w: Writer) -> None:
    """Each thread's chunk by cp.async, waited for and read."""
    k, size = w.k, w.one(4, 8, 16, 16)
    tile = w.call(k.shared, w.element("u8"), w.threads * size, align=128, name="chunks")
    source, thread = w.address(GLOBAL_SPACE), w.call(k.thread_id)
    if tile is None or not hasattr(source, "byte_offset"):
        return
    step = w.call(operator.mul, thread, size)
    to = w.call(tile.byte_offset, step)
    from_ = w.call(source.byte_offset, step)
    options = {"cache": "cg"} if size == 16 and w.chance(0.5) else {}
    if w.chance(0.2):
        options["read_bytes"] = w.one(0, size, w.call(operator.and_, thread, size - 1))
    elif w.chance(0.2):
        options["ignore"] = w.value(w.element("pred"))
    if w.chance(0.2):
        options["prefetch"] = w.one(64, 128, 256, 100)
    if w.chance(0.15):
        options["cache_policy"] = w.one(w.call(k.cache.policy, "evict_last"), w.value(w.element("u64")))
    w.call(k.cp_async.copy, to, from_, w.count(size), **options)
    w.call(k.cp_async.commit_group)
    w.call(k.cp_async.wait_group, *w.one((), (0,), (0,)))
    if not w.divergent:
        w.call(k.barrier.sync)
        if to is not None:
            w.keep(w.call(to.cast(u32).load))
        w.call(k.barrier.sync)


def generic(w: Writer) -> None:
    """Atomics and accesses with wide indices at the ends of what a type can hold."""
    found = w.address(GLOBAL_SPACE)
    if hasattr(found, "byte_offset"):
        far = w.call(w.k.const, w.number(s64), s64)
        w.keep(w.call(operator.getitem, found, far))


STATEMENTS = [
    *((5, load), (5, store), (1, atomic), (2, kept), (1, converted), (0.3, anywhere), (1, cached), (0.5, generic)),
]
TOGETHER = [(1.5, shared), (0.6, async_copy)]
"""What all threads of the CTA execute."""
