"""Each TMA instruction of sm_90a that moves or combines data, on a GPU, against NumPy, with random data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.row.types import BY_NAME, f16, f32, s32, s64, u32, u64
from nvbackend.isel.target.target import Target
from nvbackend.signature import Im2col, Parameter, Pointer, TensorMap
from tests.gpu.test_im2col_numbers import CASES, CHANNELS, PIXELS, walk
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = [*ON_DEVICES, pytest.mark.exhaustive]

TARGET = Target.parse("sm_90a")
LEGAL = [row for row in FAMILIES["tma"]() if TARGET.has(row.requires)]
WITHOUT_NUMBERS = {
    "cp.async.bulk.prefetch.tensor": "changes no value",
    "cp.async.bulk.prefetch": "changes no value",
    "prefetch.tensormap": "changes no value",
    "cp.async.bulk.commit_group": "orders; each store here has one",
    "cp.async.bulk.wait_group": "orders; each store here has one",
    "fence.proxy.tensormap": "orders",
    "tensormap.replace": "its result is a map, which only a copy reads",
    "tensormap.cp_fenceproxy": "its result is a map, which only a copy reads",
}
"""Opcodes that move no numbers of their own, and why."""

WORDS = 64
BYTES = 4 * WORDS
BOXES = {1: (64,), 2: (4, 16), 3: (2, 2, 16), 4: (2, 2, 2, 8), 5: (1, 2, 2, 2, 8)}
SHAPES = {1: (160,), 2: (9, 48), 3: (4, 5, 32), 4: (3, 4, 5, 16), 5: (2, 3, 4, 5, 16)}
STARTS = {1: (52,), 2: (3, 24), 3: (1, 3, 12), 4: (1, 0, 2, 4), 5: (1, 1, 2, 3, 8)}
"""For each rank the box (64 elements), the array and the place of the box, outermost dimension first.

The innermost start is a multiple of 16 bytes for 2-byte elements too: stores elsewhere end in an illegal instruction.
"""
PATCHES = {3: "width, next image", 4: "plane, a tap in the middle", 5: "space"}
"""For each rank the pixels that a load walks over."""
STORED_PATCHES = {
    3: ((3, 29, 32), (1,), (-3,), (0, 9), 16),
    4: ((2, 7, 9, 32), (1, 0), (-1, -2), (0, 2, 3), 16),
    5: ((2, 4, 5, 6, 32), (0, 1, 1), (-1, 0, -2), (0, 1, 2, 1), 16),
}
"""For each rank the array, lower and upper corners, first pixel and channel of a store in im2col mode."""
TENSOR_TYPES = {
    "add": (s32, u64, f16, f32),
    "min": (s32, u64, s64, f16),
    "max": (s32, u64, s64, f16),
    **dict.fromkeys(("and", "or", "xor"), (u64,)),
}
"""Types beside u32 that the reductions of a tensor of two dimensions are run with."""


@dataclass
class Case:
    """A kernel of one row and what it must leave in `out` and in the arrays that it writes."""

    row: Any
    body: Callable[..., None]
    source: np.ndarray = field(default_factory=lambda: np.zeros(1, np.uint32))
    out: np.ndarray = field(default_factory=lambda: np.zeros(1, np.uint32))
    extra: tuple[tuple[Parameter, np.ndarray, np.ndarray], ...] = ()
    cluster: int = 1

    def build_body(self, k: Any, *arguments: Any) -> None:
        """The body; it emits the row that it is for."""
        self.body(k, *arguments)
        made = [one.row for block in k.machine.blocks.values() for one in block.instructions]
        assert self.row in made, self.row.ptx

    def is_right(self) -> bool:
        """Whether the GPU and NumPy agree on every bit."""
        from numba import cuda

        given = [(parameter, cuda.to_device(before)) for parameter, before, _ in self.extra]
        found = words(self.build_body, self.source, self.out.view(np.uint32).size, *given, cluster=self.cluster)
        pairs = [(found, self.out)]
        pairs += [(one.copy_to_host(), after) for (_, one), (_, _, after) in zip(given, self.extra, strict=True)]
        return all(np.array_equal(one.view(np.uint8), other.view(np.uint8)) for one, other in pairs)


def random_words(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint64).astype(np.uint32)


def dtype_of(name: str) -> np.dtype:
    import ml_dtypes

    plain = {"b32": "u32", "b64": "u64"}.get(name, name)
    return np.dtype(ml_dtypes.bfloat16) if plain == "bf16" else BY_NAME[plain].numpy_dtype()


def random_values(kind: np.dtype, operation: str, shape: Any, seed: int, scale: float = 1.0) -> np.ndarray:
    """Values whose combination has no rounding; for inc and dec few of them, that every branch is taken."""
    random = np.random.default_rng(seed)
    if kind.kind in "iu":
        if operation in ("inc", "dec"):
            return random.integers(0, 5, shape).astype(kind)
        return np.frombuffer(random.bytes(int(np.prod(shape)) * kind.itemsize), kind).reshape(shape).copy()
    return (random.integers(-8, 9, shape) * scale).astype(kind)


def combine(operation: str, held: np.ndarray, sent: np.ndarray) -> np.ndarray:
    """What a reduction leaves where `held` was. PTX ISA 9.7.9 (cp.reduce.async.bulk); inc and dec as of atom."""
    match operation:
        case "inc":
            return np.where(held >= sent, 0, held + 1).astype(held.dtype)
        case "dec":
            return np.where((held == 0) | (held > sent), sent, held - held.dtype.type(1)).astype(held.dtype)
        case "add":
            return held + sent
        case "min" | "max":
            return {"min": np.minimum, "max": np.maximum}[operation](held, sent)
    return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[operation](held, sent)


# -- kernels --------------------------------------------------------------------------------------------------------


def policy(k, row):
    return {"cache_policy": k.cache.policy("L2::evict_first")} if row.axes["cache_hint"] else {}


def to_shared(k, source, size, start=0):
    """A tile of `size` bytes filled from the words of `source` at `start`, for the async proxy of this CTA."""
    tile = k.shared(u32, size // 4, align=128)
    for turn in range(0, size // 4, 32):
        tile[turn + k.thread_id()] = source[start + turn + k.thread_id()]
    k.fence.proxy_async()
    return tile


def stored(k, copy):
    """One thread of the CTA does `copy` when all have written, and waits until it is done."""
    k.barrier.sync()
    with k.if_(k.thread_id() == 0):
        copy()
        k.tma.commit_group()
        k.tma.wait_group()


def loading(row, size, cluster, load):
    """A kernel that loads `size` bytes in rank 0 by `load(k, tile, barrier, options, source, *extra)`; out has all."""

    def body(k, source, out, *extra):
        tile, full = k.shared(u32, size // 4, align=128), k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        lane, rank = k.thread_id(), k.cluster.rank()
        mask = {"multicast_mask": (1 << cluster) - 1} if row.axes["multicast"] else {}
        options = {"space": row.axes["destination"], **mask, **policy(k, row)}
        with k.if_(lane == 0):
            k.mbarrier.arrive(full, expect_tx=size)
            if cluster == 1:
                load(k, tile, full, options, source, *extra)
            else:
                with k.if_(rank == 0):
                    load(k, tile, full, options, source, *extra)
        k.mbarrier.wait(full, 0)
        for turn in range(0, size // 4, 32):
            out[rank * (size // 4) + turn + lane] = tile[turn + lane]
        if cluster > 1:
            k.cluster.sync()

    return body


def clusters(row):
    return (1, 2) if row.axes["multicast"] else (1,)


def place_of(start, box):
    return tuple(slice(first, first + extent) for first, extent in zip(start, box, strict=True))


def box_loads(row):
    rank = row.axes["rank"]
    array = random_words(int(np.prod(SHAPES[rank])), rank).reshape(SHAPES[rank])
    expected = array[place_of(STARTS[rank], BOXES[rank])].reshape(-1)
    parameter = Parameter("tensor", TensorMap(u32, BOXES[rank], 0))

    def load(k, tile, full, options, source, tensor):
        k.tma.load_box(tile, tensor, list(reversed(STARTS[rank])), full, **options)

    for cluster in clusters(row):
        body, extra = loading(row, BYTES, cluster, load), ((parameter, array, array),)
        yield Case(row, body, out=np.tile(expected, cluster), extra=extra, cluster=cluster)


def patch_loads(row):
    shape, lower, upper, start, offsets, channel = CASES[PATCHES[row.axes["rank"]]]
    array = np.random.default_rng(len(shape)).integers(-100, 100, shape).astype(np.float16)
    expected = walk(array, lower, upper, start, offsets, channel).reshape(-1)
    tensor_map = TensorMap(f16, (PIXELS, CHANNELS), 0, Im2col(len(shape), lower, upper))

    def load(k, tile, full, options, source, tensor):
        at, shifts = [channel, *reversed(start)], list(reversed(offsets))
        k.tma.load_box(tile, tensor, at, full, mode="im2col", offsets=shifts, **options)

    for cluster in clusters(row):
        body = loading(row, tensor_map.bytes, cluster, load)
        extra = ((Parameter("tensor", tensor_map), array, array),)
        yield Case(row, body, out=np.tile(expected, cluster), extra=extra, cluster=cluster)


def written(array, row, patch):
    """Where in the flat `array` each element of the box, or of the pixels of `patch`, lies, in the copy's order."""
    positions = np.arange(array.size).reshape(array.shape)
    if patch is None:
        rank = row.axes["rank"]
        return positions[place_of(STARTS[rank], BOXES[rank])].reshape(-1)
    _, lower, upper, start, channel = patch
    return walk(positions, lower, upper, start, (0,) * len(lower), channel).reshape(-1)


def tensor_case(row, element, operation):
    """A store (`operation` None) or reduction of a box or of pixels."""
    rank, mode = row.axes["rank"], row.axes["mode"]
    patch = STORED_PATCHES[rank] if mode == "im2col_no_offs" else None
    if patch is None:
        shape, tensor_map, at = SHAPES[rank], TensorMap(element, BOXES[rank], 0), STARTS[rank][::-1]
    else:
        shape, lower, upper, start, channel = patch
        tensor_map = TensorMap(element, (PIXELS, CHANNELS), 0, Im2col(rank, lower, upper))
        at = (channel, *reversed(start))
    kind = element.numpy_dtype()
    before = random_values(kind, operation or "", shape, rank)
    index = written(before, row, patch)
    sent = random_values(kind, operation or "", index.shape, rank + 100)
    after = before.copy()
    after.reshape(-1)[index] = sent if operation is None else combine(operation, before.reshape(-1)[index], sent)

    def body(k, source, out, tensor):
        tile = to_shared(k, source, tensor_map.bytes)
        options = {"mode": mode, **policy(k, row)}
        if operation is None:
            stored(k, lambda: k.tma.store_box(tensor, list(at), tile, **options))
        else:
            stored(k, lambda: k.tma.reduce_box(tensor, list(at), tile, operation, **options))

    return Case(row, body, source=sent, extra=((Parameter("tensor", tensor_map), before, after),))


def tensor_stores(row):
    yield tensor_case(row, u32, None)


def tensor_reductions(row):
    operation = row.axes["operation"]
    yield tensor_case(row, u32, operation)
    if (row.axes["rank"], row.axes["cache_hint"]) == (2, False):
        for element in TENSOR_TYPES.get(operation, ()):
            yield tensor_case(row, element, operation)


def bulk_loads(row):
    values = random_words(WORDS, 7)

    def load(k, tile, full, options, source):
        k.bulk.load(tile, source, BYTES, full, **options)

    for cluster in clusters(row):
        yield Case(row, loading(row, BYTES, cluster, load), values, np.tile(values, cluster), cluster=cluster)


def bulk_stores(row):
    values = random_words(WORDS, 8)

    def body(k, source, out):
        tile = to_shared(k, source, BYTES)
        stored(k, lambda: k.bulk.store(out, tile, BYTES, **policy(k, row)))

    yield Case(row, body, values, values)


def to_peer(send):
    """Each CTA of two fills `sent` and `held`, then sends to the other: by `send(k, held, sent, barrier, peer)`."""

    def body(k, source, out):
        barrier = k.mbarrier.array(1, 1)
        lane, rank = k.thread_id(), k.cluster.rank()
        sent = to_shared(k, source, BYTES, rank * WORDS)
        held = to_shared(k, source, BYTES, (rank + 2) * WORDS)
        k.fence.mbarrier_init()
        k.cluster.sync()
        with k.if_(lane == 0):
            k.mbarrier.arrive(barrier, expect_tx=BYTES)
            send(k, held, sent, barrier, 1 - rank)
        k.mbarrier.wait(barrier, 0)
        for turn in range(0, WORDS, 32):
            out[rank * WORDS + turn + lane] = held[turn + lane]
        k.cluster.sync()

    return body


def bulk_copies(row):
    values = random_words(4 * WORDS, 9)
    body = to_peer(lambda k, held, sent, barrier, peer: k.bulk.store(held, sent, BYTES, barrier=barrier, rank=peer))
    yield Case(row, body, values, np.concatenate([values[WORDS : 2 * WORDS], values[:WORDS]]), cluster=2)


def bulk_reductions(row):
    operation, name, kind = row.axes["operation"], row.axes["element"], dtype_of(row.axes["element"])
    count = BYTES // kind.itemsize
    # Additions of f16 and bf16 keep subnormal numbers: multiples of the smallest one.
    subnormal = {"f16": 2.0**-24, "bf16": 2.0**-133}.get(name, 1.0) if operation == "add" else 1.0
    if row.axes["space"] == "cluster":
        values = random_values(kind, operation, 4 * count, 10)
        first, second, *held = values.reshape(4, count)
        expected = np.concatenate([combine(operation, held[0], second), combine(operation, held[1], first)])
        body = to_peer(
            lambda k, held, sent, barrier, peer: k.bulk.reduce(
                held, sent, BYTES, operation, name, barrier=barrier, rank=peer
            )
        )
        yield Case(row, body, values, expected, cluster=2)
        return

    def body_of_global(k, source, out, target):
        tile = to_shared(k, source, BYTES)
        stored(k, lambda: k.bulk.reduce(target, tile, BYTES, operation, name, **policy(k, row)))

    for scale in sorted({1.0, subnormal}):
        held, sent = (random_values(kind, operation, count, seed, scale) for seed in (11, 12))
        target = (Parameter("target", Pointer(u32)), held.view(np.uint32), combine(operation, held, sent))
        yield Case(row, body_of_global, sent, extra=(target,))


CASES_OF = {
    ("cp.async.bulk.tensor", "load", "tile"): box_loads,
    ("cp.async.bulk.tensor", "load", "im2col"): patch_loads,
    ("cp.async.bulk.tensor", "store", "tile"): tensor_stores,
    ("cp.async.bulk.tensor", "store", "im2col_no_offs"): tensor_stores,
    ("cp.reduce.async.bulk.tensor", "reduce", "tile"): tensor_reductions,
    ("cp.reduce.async.bulk.tensor", "reduce", "im2col_no_offs"): tensor_reductions,
    ("cp.async.bulk", "load", None): bulk_loads,
    ("cp.async.bulk", "store", None): bulk_stores,
    ("cp.async.bulk", "copy", None): bulk_copies,
    ("cp.reduce.async.bulk", "reduce", None): bulk_reductions,
}
"""By opcode, direction and mode: the kernels of a row."""


def kind_of(row):
    return (row.opcode, row.axes.get("direction"), row.axes.get("mode"))


def name_of(row):
    """What the rows of one test have in common."""
    last = row.axes.get("operation") or ("multicast" if row.axes.get("multicast") else row.axes.get("destination"))
    return "-".join(str(part) for part in (*kind_of(row), last, row.axes.get("space")) if part)


COVERED = sorted((row for row in LEGAL if kind_of(row) in CASES_OF), key=name_of)
TESTS = {name: list(rows) for name, rows in itertools.groupby(COVERED, name_of)}


@pytest.mark.parametrize("name", TESTS)
def test_every_row_against_numpy(name):
    wrong = [
        (row.ptx, place)
        for row in TESTS[name]
        for place, case in enumerate(CASES_OF[kind_of(row)](row))
        if not case.is_right()
    ]
    assert wrong == []


def test_these_are_all_rows():
    rest = [row for row in LEGAL if row not in COVERED]
    assert {row.opcode for row in rest} == set(WITHOUT_NUMBERS)
    assert not {row.opcode for row in COVERED} & set(WITHOUT_NUMBERS)
    assert len(COVERED) + len(rest) == len(LEGAL)
    assert len(COVERED) > 250
