"""Several kernels in one module: each launched by its name, with functions that they share."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32
from tests.support.devices import ON_DEVICES, target_on

pytestmark = ON_DEVICES


def test_each_kernel_of_a_module_is_launched_by_its_name(device) -> None:
    from numba import cuda

    from nvbackend import runtime

    @nvb.function(inline=False)
    def squared(k, x: f32) -> f32:
        return x * x

    @nvb.kernel("sm_80", threads=32)
    def rotated(k, out: nvb.Pointer[f32]):
        tile, t = k.shared(f32, 32), k.thread_id()
        tile[t] = squared(k, t.to(f32))
        k.barrier.sync()
        out[t] = tile[(t + 1) % 32]

    @nvb.kernel("sm_80", threads=64)
    def looked_up(k, out: nvb.Pointer[f32], *, scale=1.0):
        table, t = k.constant.array([1.0, 2.0, 3.0, 4.0], f32), k.thread_id()
        k.assert_(t < 64)
        out[t] = squared(k, table[t % 4]) * scale

    kernels = [rotated, looked_up, looked_up.with_(scale=2.0, name="doubled")]
    module = nvb.compile_module(kernels, target=target_on(device, "sm_80"), assemble=None)
    loaded = runtime.load(module)
    assert list(loaded) == list(module) == ["rotated", "looked_up", "doubled"]
    t = np.arange(64.0)
    expected = {"rotated": ((t[:32] + 1) % 32) ** 2, "looked_up": (t % 4 + 1) ** 2, "doubled": 2 * (t % 4 + 1) ** 2}
    for name, numbers in expected.items():
        out = cuda.to_device(np.zeros(len(numbers), np.float32))
        loaded[name].launch(1, out)
        loaded[name].synchronize()
        assert out.copy_to_host().tolist() == numbers.tolist()
