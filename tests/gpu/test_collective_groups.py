"""Reductions and scans of groups of warps, each at its own time, on a GPU and in the simulator, against NumPy."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32, runtime, s32
from tests.support.devices import ON_DEVICES, target_on

pytestmark = ON_DEVICES
ROUNDS = 3


def _run(kernel, *arrays, scalars=()):
    from numba import cuda

    there = [cuda.to_device(each) for each in arrays]
    loaded = runtime.load(kernel.compile())
    loaded.launch(1, *there, *scalars)
    loaded.synchronize()
    return [each.copy_to_host() for each in there]


def test_consumers_reduce_while_the_producer_goes_on(device):
    @nvb.kernel(target_on(device, "sm_80"), threads=384)
    def consumed(
        k, x: nvb.Pointer[s32], sums: nvb.Pointer[s32], scans: nvb.Pointer[s32], best: nvb.Pointer[s32], n: i32
    ):
        group, thread = k.warpgroup_id(), k.thread_id()
        with k.if_(group > 0), k.range(n * group) as turn:  # the second group comes twice as often
            at = turn // group * 384 + thread
            sums[at] = k.cta.reduce("add", x[at], threads=128, barrier=group)
            scans[at] = k.cta.scan(k.math.max, x[at], exclusive=True, initial=-99, threads=128, barrier=group)
            value, place = k.cta.argmin(x[at], threads=128, barrier=group)
            best[at] = value * 1000 + place

    x = np.random.default_rng(0).integers(-50, 50, (ROUNDS, 384)).astype(np.int32)
    nothing = [np.zeros_like(x) for _ in range(3)]
    _, sums, scans, best = (each.reshape(ROUNDS, 3, 128) for each in _run(consumed, x, *nothing, scalars=(ROUNDS,)))
    parts = x.reshape(ROUNDS, 3, 128)
    greatest = np.maximum.accumulate(np.insert(parts, 0, -99, axis=2), axis=2)[..., :-1]
    places = parts.argmin(-1) + np.arange(3) * 128
    assert np.array_equal(sums[:, 1:], np.repeat(parts.sum(-1)[..., None], 128, -1)[:, 1:])
    assert np.array_equal(scans[:, 1:], greatest[:, 1:])
    assert np.array_equal(best[:, 1:], np.repeat((parts.min(-1) * 1000 + places)[..., None], 128, -1)[:, 1:])
    assert not sums[:, 0].any()


def test_groups_of_other_sizes_and_the_whole_cta_between(device):
    @nvb.kernel(target_on(device, "sm_80"), threads=256)
    def mixed(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
        warp, thread = k.warp_id(), k.thread_id()
        value = x[thread]
        with k.if_(warp == 0):
            out[thread] = k.cta.reduce("add", value, threads=32, barrier=1)
        with k.else_():
            with k.if_(warp < 4):
                first = (value, value * value)
                sums = k.cta.reduce("add", first, threads=96, barrier=2)
                out[thread] = sums[0] + sums[1]
            with k.else_():
                out[thread] = k.cta.scan("add", value, threads=64, barrier=1 + warp // 2)
        out[256 + thread] = k.cta.reduce("add", value)
        with k.if_(warp > 3):
            out[thread] += k.cta.reduce("max", value, threads=128, barrier=5)

    x = np.random.default_rng(1).integers(-9, 9, 256).astype(np.float32)
    _, out = _run(mixed, x, np.zeros(512, np.float32))
    of_three = x[32:128]
    expected = [
        np.full(32, x[:32].sum()),
        np.full(96, of_three.sum() + (of_three**2).sum()),
        x[128:].reshape(2, 64).cumsum(1).ravel() + x[128:].max(),
        np.full(256, x.sum()),
    ]
    assert np.array_equal(out, np.concatenate(expected))
