"""NaN in what threads compute together, in every collective that takes it, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, s32

NAN_CALLS: dict[str, Callable[..., Any]] = {
    "warp.reduce": lambda k, x, **how: k.warp.reduce("max", x, **how),
    "warp.reduce of a segment": lambda k, x, **how: k.warp.reduce("min", x, width=16, **how),
    "warp.reduce of two": lambda k, x, **how: k.warp.reduce("max", (x, x.to(s32)), **how)[0],
    "warp.scan": lambda k, x, **how: k.warp.scan("max", x, **how),
    "warp.scan exclusive": lambda k, x, **how: k.warp.scan("min", x, exclusive=True, **how),
    "cta.reduce": lambda k, x, **how: k.cta.reduce("min", x, **how),
    "cta.scan": lambda k, x, **how: k.cta.scan("max", x, **how),
    "cta.scan exclusive": lambda k, x, **how: k.cta.scan("min", x, exclusive=True, **how),
    "cluster.reduce": lambda k, x, **how: k.cluster.reduce("max", x, **how),
}
THREADS = 64


def _of_nan(call: str, x: np.ndarray[Any, Any], *, nan: bool) -> np.ndarray[Any, Any]:
    """What NumPy gives: its maximum and minimum keep NaN, fmax and fmin leave it out."""
    low = {"warp.reduce of a segment", "warp.scan exclusive", "cta.reduce", "cta.scan exclusive"}
    by = {(False, False): np.fmax, (False, True): np.maximum, (True, False): np.fmin, (True, True): np.minimum}
    ufunc: Any = by[call in low, nan]
    width = 16 if "segment" in call else 32 if "warp" in call else THREADS
    parts = x.reshape(-1, 2 * THREADS)
    parts = parts if "cluster" in call else parts.reshape(-1, width)
    if "scan" not in call:
        return ufunc.reduce(parts, axis=1).repeat(parts.shape[1])  # type: ignore[no-any-return]
    scanned = ufunc.accumulate(parts, axis=1)
    if "exclusive" in call:
        scanned = np.concatenate([np.full((len(parts), 1), np.inf), scanned[:, :-1]], axis=1)
    return scanned.reshape(-1)  # type: ignore[no-any-return]


@pytest.mark.parametrize("nan", [False, True])
def test_a_nan_wins_where_it_is_asked_for_in_every_collective(nan: bool) -> None:
    @nvb.kernel("sm_90a", threads=THREADS, cluster=2)
    def kernel(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
        at = k.block_id() * THREADS + k.thread_id()
        value = x[at]
        for place, call in enumerate(NAN_CALLS.values()):
            out[place * 4 * THREADS + at] = call(k, value, **({"nan": True} if nan else {}))

    x = np.random.default_rng(7).integers(-50, 50, 4 * THREADS).astype(np.float32)
    x[[5, 40, 41, 130, 255]] = np.nan  # a warp and a CTA have none, too
    got = np.zeros((len(NAN_CALLS), x.size), np.float32)
    nvb.runtime.load(kernel.compile(assemble=False), device="simulator").launch(4, x, got)
    for row, call in zip(got, NAN_CALLS, strict=True):
        assert np.array_equal(row, _of_nan(call, x, nan=nan), equal_nan=True), call


def test_the_index_of_an_extreme_is_that_of_a_number_before_any_nan() -> None:
    @nvb.kernel("sm_90a", threads=THREADS)
    def kernel(k, x: nvb.Pointer[f32], out: nvb.Pointer[i32]):
        at = k.thread_id()
        calls = (k.warp.argmax(x[at], at), k.warp.argmin(x[at], at), k.cta.argmax(x[at]), k.cta.argmin(x[at]))
        for place, (_, index) in enumerate(calls):
            out[place * THREADS + at] = index

    x = np.random.default_rng(8).integers(-50, 50, THREADS).astype(np.float32)
    x[[0, 9, 33]] = np.nan
    x[32:] = np.where(np.arange(32) < 30, np.nan, x[32:])  # a warp with two numbers
    got = np.zeros((4, THREADS), np.int32)
    loaded = nvb.runtime.load(kernel.compile(assemble=False), device="simulator")
    for numbers in (x, np.full_like(x, np.nan)):
        loaded.launch(1, numbers, got)
        for place, (sign, width) in enumerate(((1, 32), (-1, 32), (1, THREADS), (-1, THREADS))):
            keys = np.where(np.isnan(numbers), -np.inf, sign * numbers).reshape(-1, width)
            first = keys.argmax(1) + np.arange(len(keys)) * width
            assert np.array_equal(got[place], first.repeat(width)), place
