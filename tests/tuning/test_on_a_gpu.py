"""Two tiles of the sample GEMM, measured on a GPU: NumPy's numbers, and the disk the second time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from samples.gemm.wide import Wide
from samples.problem import random_product

SIZE = M, N, K = 520, 264, 328
WIDE = {repr(one): one.for_depth(K) for one in (Wide(64, 1, 1, 4), Wide(128, 2, 2, 3))}


@pytest.mark.gpu((9, 0))
def test_two_tiles_of_a_gemm(tmp_path: Path) -> None:
    from numba import cuda

    host_a, host_b, expected, nothing = random_product(*SIZE)
    a, b, c = map(cuda.to_device, (host_a, host_b, nothing))
    prepared: list[str] = []

    def prepare(name: str, loaded: Any) -> nvb.runtime.PreparedLaunch:
        prepared.append(name)
        c.copy_to_device(nothing)
        grid, last = WIDE[name].launch_of(*SIZE, loaded.device.limits.multiprocessors)
        prepared_launch: nvb.runtime.PreparedLaunch = loaded.prepare(grid, a, b, c, *last)
        return prepared_launch

    def is_right(name: str) -> bool:
        return bool(np.allclose(c.copy_to_host(), expected, rtol=0, atol=2**-10 * np.abs(expected).max()))

    def tuned() -> nvb.Tuned:
        kernels = {name: one.kernel for name, one in WIDE.items()}
        return nvb.tune(kernels, prepare=prepare, check=is_right, key=SIZE, cache=nvb.Cache(tmp_path))

    first, second = tuned(), tuned()
    assert prepared == list(WIDE)
    assert (first.measured, second.measured) == (True, False)
    assert first.failed == {}
    assert (second.best, second.timings) == (first.best, first.timings)
    assert all(sample > 0 for timing in first.timings.values() for sample in timing.samples)
    c.copy_to_device(nothing)
    grid, last = WIDE[second.best].launch_of(*SIZE, second.kernel.device.limits.multiprocessors)
    second.kernel.launch(grid, a, b, c, *last)
    second.kernel.synchronize()
    assert is_right(second.best)
