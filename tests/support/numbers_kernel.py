"""Kernels of a few instructions, compiled or run once on a GPU: words in, words out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nvbackend.builder.kernel.kernel import FinishedKernel, KernelBuilder
from nvbackend.intrinsics.row.types import u32
from nvbackend.signature import Parameter, Pointer

Body = Callable[..., None]


def build(body: Body, *, threads: int = 32, cluster: int = 1, extra: Sequence[Parameter] = ()) -> FinishedKernel:
    """The kernel whose code `body(k, source, out, *extra)` emits; `source` and `out` are u32 in global memory."""
    parameters = [Parameter("source", Pointer(u32)), Parameter("out", Pointer(u32)), *extra]
    k = KernelBuilder("numbers", "sm_90a", threads=threads, cluster=cluster, parameters=parameters)
    body(k, *k.arguments)
    return k.finish()


def words(body: Body, source: np.ndarray, count: int, *extra: tuple[Parameter, Any], **options: Any) -> np.ndarray:
    """What `body` leaves in the `count` words of `out`, given the words of `source`, in one cluster."""
    from numba import cuda

    from nvbackend import runtime

    finished = build(body, extra=[parameter for parameter, _ in extra], **options)
    kernel = runtime.load(finished.compile())
    out = cuda.to_device(np.zeros(count, np.uint32))
    given = cuda.to_device(np.ascontiguousarray(source).reshape(-1).view(np.uint32))
    kernel.launch(options.get("cluster", 1), given, out, *(array for _, array in extra))
    kernel.synchronize()
    return out.copy_to_host()
