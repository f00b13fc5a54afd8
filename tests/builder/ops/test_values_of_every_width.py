"""Values of every width, handed from lane to lane, from warp to warp and from CTA to CTA: the same bits arrive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import KernelBuilder, u8, u64
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, pred

WARPS, CTAS = 3, 2
THREADS = 32 * WARPS
ELEMENTS = [BY_NAME[name] for name in ("pred", "s4", "e2m1", "e2m3", "e5m2", "bf16", "f32", "f16x2", "s64")]


def _integer(element: ElementType) -> ElementType:
    return BY_NAME.get(f"u{element.bits}", u8)


def _of_bits(bits: Any, element: ElementType) -> Any:
    return bits != 0 if element is pred else bits.to(_integer(element)).bitcast(element)


def _bits(k: KernelBuilder, value: Any) -> Any:
    return k.select(value, 1, 0).to(u64) if value.type is pred else value.bitcast(_integer(value.type)).to(u64)


def _later(_: Any, b: Any) -> Any:
    """Of two the later: associative, and the order counts."""
    return b


def _kernel(element: ElementType) -> KernelBuilder:
    names = ("x", "shuffled", "own", "before", "most", "most_of_all")
    parameters = [nvb.Parameter(name, nvb.Pointer(u64)) for name in names]
    k = KernelBuilder("handed", "sm_100a", threads=THREADS, cluster=CTAS, parameters=parameters)
    x, *outputs = k.arguments
    at = k.thread_id() + k.cluster.rank().to(nvb.s32) * THREADS
    value = _of_bits(x[at], element)

    def greater(a: Any, b: Any) -> Any:
        return k.select(_bits(k, a) < _bits(k, b), b, a)

    handed = (
        k.warp.shuffle(value, "idx", 5),
        k.cta.scan(_later, value),
        k.cta.scan(_later, value, exclusive=True, initial=_of_bits(x[CTAS * THREADS], element)),
        k.cta.reduce(greater, value),
        k.cluster.reduce(greater, value),
    )
    for out, each in zip(outputs, handed, strict=True):
        assert each.type is element
        out[at] = _bits(k, each)
    return k


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_the_bits_of_a_value_arrive(element: ElementType) -> None:
    drawn = np.random.default_rng(element.bits).integers(0, 1 << element.bits, CTAS * THREADS + 1, np.uint64)
    x, *got = drawn, *(np.zeros((CTAS, THREADS), np.uint64) for _ in range(5))
    nvb.runtime.load(_kernel(element).compile(assemble=False), device="simulator").launch(CTAS, x, *got)
    threads = x[:-1].reshape(CTAS, THREADS)
    lanes = threads.reshape(CTAS, WARPS, 32)
    shuffled = np.broadcast_to(lanes[:, :, 5:6], lanes.shape).reshape(CTAS, THREADS)
    before = np.concatenate([np.full((CTAS, 1), x[-1]), threads[:, :-1]], 1)
    most = np.broadcast_to(threads.max(1)[:, None], threads.shape)
    most_of_all = np.full((CTAS, THREADS), threads.max())
    for result, wanted in zip(got, (shuffled, threads, before, most, most_of_all), strict=True):
        assert np.array_equal(result, wanted)
