"""k.atomic on a GPU and in the simulator, against NumPy and ml_dtypes: special numbers, each thread at its own place.

And many threads at one place, where only the sum of what they do shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, bf16, f16, f32, s32, u32, u64
from nvbackend.signature import Parameter, Pointer
from tests.scalar.specials import random_bits
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = ON_DEVICES

THREADS = 256
DTYPES = {"bf16": ml_dtypes.bfloat16}
BITWISE = ("and", "or", "xor")
CALLS = {"and": "and_", "or": "or_", "exch": "exchange"}
CASES = [
    *(("add", name, 1, "") for name in ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64")),
    *((operation, name, 1, "") for operation in ("min", "max") for name in ("u32", "s32", "u64", "s64")),
    *((operation, "u32", 1, "") for operation in ("inc", "dec")),
    *((operation, name, 1, "") for operation in BITWISE for name in ("u32", "s64")),
    *(("exch", name, 1, "") for name in ("s32", "f32", "f64", "u64")),
    *(("add", name, 2, pair) for name, pair in (("f16", "f16x2"), ("bf16", "bf16x2"))),
]
VECTORS = [
    *(("add", "f32", vector) for vector in (2, 4)),
    *(
        (operation, name, vector)
        for operation in ("add", "min", "max")
        for name in ("f16", "bf16")
        for vector in (2, 4, 8)
    ),
]


def dtype(element: ElementType) -> Any:
    return np.dtype(DTYPES.get(element.name, element.storage))


def flushed(array: Any) -> Any:
    tiny = np.abs(array) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), array), array)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": lambda old, value: (old + value).astype(old.dtype),
    "min": lambda old, value: np.where(old < value, old, value),
    "max": lambda old, value: np.where(old < value, value, old),
    "inc": lambda old, value: np.where(old >= value, 0, old + np.uint32(1)),
    "dec": lambda old, value: np.where((old == 0) | (old > value), value, old - np.uint32(1)),
    "exch": lambda old, value: value,
}


def changed(operation: str, old: Any, value: Any, *, flush: bool) -> Any:
    """What NumPy says is there then."""
    with np.errstate(all="ignore"):
        return flushed(flushed(old) + flushed(value)) if flush else CHANGES[operation](old, value)


def same(left: Any, right: Any) -> Any:
    """Equal, or NaN both; of zeros of two signs an extreme takes either."""
    nan = np.isnan(left.astype(np.float64)) & np.isnan(right.astype(np.float64))
    return (left == right) | nan


def given(element: ElementType, count: int, seed: int, *, plain: bool = False) -> Any:
    """Numbers of a type; `plain` ones are neither NaN nor subnormal."""
    bits = random_bits(np.random.default_rng(seed), element, count)
    array = bits.astype(f"u{dtype(element).itemsize}").view(dtype(element))
    if plain:
        wide = array.astype(np.float64)
        least = float(ml_dtypes.finfo(dtype(element)).tiny)
        array = np.where(np.isfinite(wide) & (np.abs(wide) >= least), array, np.ones_like(array))
    return array


def run(body: Callable[..., None], kind: ElementType, *arrays: Any) -> list[Any]:
    """What the arrays hold afterwards."""
    from numba import cuda

    from nvbackend import runtime

    parameters = [Parameter(f"array{index}", Pointer(kind, align=16)) for index, _ in enumerate(arrays)]
    k = KernelBuilder("atomics", "sm_90a", threads=THREADS, parameters=parameters)
    body(k, *k.arguments)
    kernel = runtime.load(k.finish().compile())
    held = kind.numpy_dtype()
    on_device = [cuda.to_device(np.ascontiguousarray(array).view(held)) for array in arrays]
    kernel.launch(1, *on_device)
    kernel.synchronize()
    return [array.copy_to_host().view(before.dtype) for array, before in zip(on_device, arrays, strict=True)]


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("operation", "name", "count", "pair"), CASES, ids=str)
def test_one_place_a_thread(operation: str, name: str, count: int, pair: str, space: str) -> None:
    element = BY_NAME[name]
    kind = u32 if pair else element
    named = {"element": pair} if pair else {}

    def body(k: Any, memory: Any, values: Any, old: Any) -> None:
        thread = k.thread_id()
        place = memory + thread
        if space == "shared":
            place = k.shared(kind, THREADS) + thread
            place[0] = memory[thread]
        call = getattr(k.atomic, CALLS.get(operation, operation))
        old[thread] = call(place, values[thread], **named)
        if space == "shared":
            memory[thread] = place[0]

    before, values = (given(element, THREADS * count, seed) for seed in (1, 2))
    after, _, old = run(body, kind, before, values, np.zeros_like(before))
    flush = element is f32 and operation == "add" and space == "global"
    wanted = changed(operation, before, values, flush=flush)
    assert np.array_equal(old.view(np.uint8), before.view(np.uint8))
    wrong = np.flatnonzero(~same(after, wanted))
    assert [(before[one], values[one], after[one], wanted[one]) for one in wrong] == []


@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize(("operation", "name", "count"), VECTORS, ids=str)
def test_a_vector_a_thread(operation: str, name: str, count: int, returns: bool) -> None:
    element = BY_NAME[name]

    def body(k: Any, memory: Any, values: Any, old: Any) -> None:
        thread = k.thread_id()
        parts = [values[thread * count + index] for index in range(count)]
        if not returns:
            k.atomic.reduce(memory + thread * count, operation, parts)
            return
        before = getattr(k.atomic, operation)(memory + thread * count, parts)
        for index, part in enumerate(before):
            old[thread * count + index] = part

    before, values = (given(element, THREADS * count, seed, plain=True) for seed in (3, 4))
    after, _, old = run(body, element, before, values, np.zeros_like(before))
    wanted = changed(operation, before, values, flush=element is f32 and operation == "add")
    assert not returns or np.array_equal(old.view(np.uint8), before.view(np.uint8))
    wrong = np.flatnonzero(~same(after, wanted))
    assert [(before[one], values[one], after[one], wanted[one]) for one in wrong] == []


@pytest.mark.parametrize("kind", [f16, bf16, u32, f32, u64], ids=str)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_compare_and_swap(kind: ElementType, space: str) -> None:
    def body(k: Any, memory: Any, expected: Any, values: Any, old: Any) -> None:
        thread = k.thread_id()
        place = memory + thread
        if space == "shared":
            place = k.shared(kind, THREADS) + thread
            place[0] = memory[thread]
        old[thread] = k.atomic.cas(place, expected[thread], values[thread], order="acq_rel", scope="cta")
        if space == "shared":
            memory[thread] = place[0]

    before, values = (given(kind, THREADS, seed) for seed in (5, 6))
    expected = np.where(np.arange(THREADS) % 3 == 0, values, before)
    after, _, _, old = run(body, kind, before, expected, values, np.zeros_like(before))
    bits = f"u{dtype(kind).itemsize}"
    wanted = np.where(before.view(bits) == expected.view(bits), values.view(bits), before.view(bits))
    assert np.array_equal(old.view(bits), before.view(bits))
    assert np.array_equal(after.view(bits), wanted)


def test_128_bits() -> None:
    def body(k: Any, memory: Any, expected: Any, values: Any, old: Any) -> None:
        thread = k.thread_id() * 2
        pairs = [[array[thread], array[thread + 1]] for array in (expected, values)]
        before = k.atomic.cas(memory + thread, *pairs)
        again = k.atomic.exchange(memory + thread, [before[1], before[0]])
        for index in range(2):
            old[thread + index] = again[index]

    before, values = (given(u64, THREADS * 2, seed) for seed in (7, 8))
    differs = np.arange(THREADS * 2) % 6 == 3  # in the upper half alone
    expected = np.where(differs, ~before, before)
    after, _, _, old = run(body, u64, before, expected, values, np.zeros_like(before))
    meets = ~differs.reshape(-1, 2).any(1, keepdims=True)
    swapped = np.where(meets, values.reshape(-1, 2), before.reshape(-1, 2))
    assert np.array_equal(old.reshape(-1, 2), swapped)
    assert np.array_equal(after.reshape(-1, 2), before.reshape(-1, 2)[:, ::-1])


@pytest.mark.parametrize("space", ["global", "shared", "cluster"])
def test_many_threads_at_few_places(space: str) -> None:
    """Sums, counters that wrap and one ticket a thread, also of the CTAs of a cluster in the memory of the first."""
    clusters = 2 if space == "cluster" else 1

    def body(k: Any, source: Any, out: Any) -> None:
        mine = k.cluster.rank() * THREADS + k.thread_id()
        place = out
        if space != "global":
            bins = k.shared(u32, 4)
            with k.if_(k.thread_id() < 4):
                bins[k.thread_id()] = 0
            place = bins
            if space == "cluster":
                k.cluster.sync()
                place = k.cluster.map_shared_rank(bins, 0)
            else:
                k.barrier.sync()
        k.atomic.reduce(place, "add", source[mine])
        k.atomic.inc(place + 1, 9)
        k.atomic.max(place.cast(s32) + 2, source[mine].bitcast(s32))
        out[4 + mine] = k.atomic.add(place + 3, 1)
        if space == "cluster":
            k.cluster.sync()
        else:
            k.barrier.sync()
        if space != "global":
            with k.if_((k.cluster.rank() == 0) & (k.thread_id() < 4)):
                out[k.thread_id()] = bins[k.thread_id()]

    count = THREADS * clusters
    source = np.random.default_rng(9).integers(0, 1 << 31, count).astype(np.uint32)
    found = words(body, source, 4 + count, threads=THREADS, cluster=clusters)
    assert found[:4].tolist() == [int(source.sum(dtype=np.uint32)), count % 10, int(source.max()), count]
    assert sorted(found[4:].tolist()) == list(range(count))
