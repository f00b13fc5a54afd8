"""Each cp.async, st.async, red.async, match, cvt and prmt that Hopper has, run once on a GPU, against NumPy."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest

from nvbackend.codegen.old_ptxas import HINTED_COPY_FIXED
from nvbackend.codegen.toolchain import find_ptxas
from nvbackend.intrinsics.copy import async_store, cp_async
from nvbackend.intrinsics.row.types import BY_NAME, f32, u32, u64
from nvbackend.intrinsics.sync import warp
from nvbackend.isel.target.target import Target
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = ON_DEVICES

LANES = np.arange(32)
HOPPER = Target.parse("sm_90a")
REGISTER_TYPES = {"b32": u32, "b64": u64}


def on_hopper(rows, opcode):
    return [row for row in rows if HOPPER.has(row.requires) and row.opcode == opcode]


def type_of(row):
    name = str(row.axes["element"])
    return REGISTER_TYPES.get(name) or BY_NAME[name]


def random_words(count, seed=1):
    return np.random.default_rng(seed).integers(0, 1 << 20, count).astype(np.uint32)


# -- cp.async -------------------------------------------------------------------------------------------------------


def copies():
    """The rows that this machine's ptxas encodes: older ones are refused for copies with a policy."""
    hinted = find_ptxas().version >= HINTED_COPY_FIXED
    return [row for row in on_hopper(cp_async.rows(), "cp.async") if hinted or not row.axes["cache_hint"]]


SLOT = 16 * len(LANES)
"""Bytes of shared memory for each copy's lanes."""


def copied(values, row):
    """What the lanes of one copy leave in their slot."""
    size = row.axes["size"]
    data = values.view(np.uint8)[: size * 32].reshape(32, size).copy()
    if row.axes["fill"] == "bytes":
        data[:, size // 2 :] = 0
    elif row.axes["fill"] == "ignore":
        data[LANES % 2 == 1] = 0
    return data.reshape(-1)


@pytest.mark.parametrize("wait_all", [False, True])
def test_every_copy(wait_all):
    rows = copies()

    def body(k, source, out):
        lane = k.thread_id()
        policy = k.cache.policy("L2::evict_last")
        slots = k.shared(u32, SLOT // 4 * len(rows), align=128)
        with k.range(lane, len(rows) * SLOT // 4, 32) as word:
            slots[word] = 0
        k.barrier.sync()
        for index, row in enumerate(rows):
            axes = row.axes
            fills = {"bytes": {"read_bytes": axes["size"] // 2}, "ignore": {"ignore": lane % 2 == 1}}
            k.cp_async.copy(
                slots.byte_offset(index * SLOT + lane * axes["size"], align=axes["size"]),
                source.byte_offset(lane * axes["size"], align=axes["size"]),
                axes["size"],
                cache=axes["cache_operator"],
                prefetch=axes["prefetch"],
                cache_policy=policy if axes["cache_hint"] else None,
                **fills.get(axes["fill"], {}),
            )
        k.cp_async.commit_group()
        k.cp_async.wait_group(None if wait_all else 0)
        k.barrier.sync()
        with k.range(lane, len(rows) * SLOT // 4, 32) as word:
            out[word] = slots[word]

    values = random_words(128)
    found = words(body, values, len(rows) * SLOT // 4).view(np.uint8).reshape(len(rows), SLOT)
    wrong = [
        row.ptx
        for row, slot in zip(rows, found, strict=True)
        if not np.array_equal(slot[: row.axes["size"] * 32], copied(values, row))
    ]
    assert wrong == []


# -- stores and reductions in the other CTA of a cluster --------------------------------------------------------------

STORES = [row for row in on_hopper(async_store.rows(), "st.async") if row.axes["space"] == "shared::cluster"]
REDUCTIONS = [row for row in on_hopper(async_store.rows(), "red.async") if row.axes.get("space") != "global"]


@pytest.mark.parametrize("row", STORES, ids=lambda row: row.ptx.rpartition("bytes.")[2])
def test_every_store_in_the_other_cta(row):
    kind, count = type_of(row), row.axes["count"]
    size = kind.bits // 8 * count

    def body(k, source, out):
        shared = k.shared(u32, size * 32 // 4, align=128)
        barrier = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        lane, rank = k.thread_id(), k.cluster.rank()
        with k.if_(lane == 0):
            k.mbarrier.arrive(barrier, expect_tx=size * 32)
        k.cluster.sync()
        given = source.cast(kind)
        values = [given[(rank * 32 + lane) * count + index] for index in range(count)]
        place = shared.byte_offset(lane * size, align=size).cast(kind)
        k.async_store.store(place, values, barrier, 1 - rank, element=row.axes["element"])
        k.mbarrier.wait(barrier, 0)
        with k.range(lane, size * 32 // 4, 32) as word:
            out[rank * (size * 32 // 4) + word] = shared[word]
        k.cluster.sync()

    values = random_words(size * 64 // 4)
    found = words(body, values, values.size, cluster=2)
    assert np.array_equal(found, np.roll(values, values.size // 2))


def reduced(operation, start, values):
    """What a location holds after every lane's value came to it, one after another."""
    if operation in ("inc", "dec"):
        held = int(start)
        for limit in map(int, values):
            up, down = (0 if held >= limit else held + 1), (limit if held == 0 or held > limit else held - 1)
            held = up if operation == "inc" else down
        return held
    functions = {"add": np.add, "min": np.minimum, "max": np.maximum}
    functions |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return functools.reduce(functions[operation], values, start)


@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.ptx.rpartition("bytes.")[2])
def test_every_reduction_in_the_other_cta(row):
    kind, operation = type_of(row), row.axes["operation"]
    size = kind.bits // 8

    def body(k, source, out):
        shared = k.shared(kind, 1, align=16)
        barrier = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        lane, rank = k.thread_id(), k.cluster.rank()
        given = source.cast(kind)
        with k.if_(lane == 0):
            shared[0] = given[64]
            k.mbarrier.arrive(barrier, expect_tx=size * 32)
        k.cluster.sync()
        k.async_store.reduce(shared, operation, given[rank * 32 + lane], barrier, 1 - rank)
        k.mbarrier.wait(barrier, 0)
        with k.if_(lane == 0):
            out.cast(kind)[rank] = shared[0]
        k.cluster.sync()

    signed = kind.is_signed
    values = np.random.default_rng(5).integers(-5000 if signed else 0, 5000, 65).astype(kind.numpy_dtype())
    if operation in ("inc", "dec"):
        values[:64] = 20  # the same limit for all, or the result would depend on the order
    values[64] = 10
    found = words(body, values.view(np.uint32), size // 2, cluster=2).view(values.dtype)
    halves = (values[32:64], values[:32])
    assert list(found) == [reduced(operation, values[64], half) for half in halves]


# -- warps and registers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [32, 64])
def test_every_match(bits):
    rows = [row for row in warp.rows() if row.opcode.startswith("match") and row.axes["bits"] == bits]
    assert len(rows) == 3

    def body(k, source, out):
        lane = k.thread_id()
        value = source[lane] if bits == 32 else source[lane].to(u64) * 2**33
        same = source[lane] * 0 if bits == 32 else (source[lane] * 0).to(u64)
        out[lane] = k.warp.match("any", value)
        out[32 + lane] = k.warp.match("all", value)
        out[64 + lane] = k.warp.match("all", same)
        for turn, one in enumerate((value, same)):
            lanes, equal = k.warp.match("all", one, equal=True)
            out[96 + 64 * turn + lane] = lanes
            out[128 + 64 * turn + lane] = k.select(equal, 1, 0).to(u32)
        out[224 + lane] = k.warp.active_lanes()

    values = (LANES % 3).astype(np.uint32)
    found = words(body, values, 256).reshape(8, 32)
    masks = [sum(1 << int(other) for other in LANES[values == value]) for value in values]
    whole = 2**32 - 1
    assert list(found[0]) == masks
    assert [set(row) for row in found[1:]] == [{0}, {whole}, {0}, {0}, {whole}, {1}, {whole}]


PAIRS = {
    "f16x2": np.float16,
    "bf16x2": ml_dtypes.bfloat16,
    "e4m3x2": ml_dtypes.float8_e4m3fn,
    "e5m2x2": ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("pair", PAIRS)
def test_every_packing(pair, relu):
    def body(k, source, out):
        lane = k.thread_id()
        given = source.cast(f32)
        packed = k.convert.pack(pair, given[32 + lane], given[lane], relu=relu)
        out[lane] = packed.bitcast(u32) if packed.type.bits == 32 else packed.to(u32)

    values = np.random.default_rng(7).standard_normal(64).astype(np.float32) * 8
    kept = np.maximum(values, 0) if relu else values
    bits = np.dtype(PAIRS[pair]).itemsize * 8
    high, low = kept.astype(PAIRS[pair]).view(f"uint{bits}").astype(np.uint32).reshape(2, 32)
    assert np.array_equal(words(body, values, 32), high << bits | low)


def test_permuted_bytes():
    def body(k, source, out):
        lane = k.thread_id()
        out[lane] = k.math.permute_bytes(source[lane], source[32 + lane], source[64 + lane])

    values = np.random.default_rng(8).integers(0, 1 << 32, 96, np.uint64).astype(np.uint32)
    values[64:] &= 0x7777  # the top bit of a selector's digit would spread a sign
    both = np.concatenate([values[:32, None].view(np.uint8), values[32:64, None].view(np.uint8)], axis=1)
    digits = (values[64:, None] >> (4 * np.arange(4))) & 7
    wanted = np.take_along_axis(both, digits.astype(np.int64), axis=1)
    assert np.array_equal(words(body, values, 32), np.ascontiguousarray(wanted).view(np.uint32)[:, 0])
