"""The picture of docs/simulator.md."""

from __future__ import annotations

import numpy as np

from nvbackend import runtime
from samples import hopper_gemm

M, N, K = 256, 256, 512


def timeline() -> str:
    """The Hopper GEMM of one cluster."""
    loaded = runtime.load(hopper_gemm.gemm.compile(assemble=False), device="simulator", report=True)
    a, b, c = (np.zeros(shape, np.float16) for shape in ((M, K), (N, K), (M, N)))
    loaded.launch(2, a, b, c, *hopper_gemm.extents(M, N, K))
    assert loaded.report is not None
    return loaded.report.timeline().svg
