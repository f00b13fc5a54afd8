"""Kernels that end their launch where an index is too large."""

from __future__ import annotations

from typing import Any

import nvbackend as nvb


@nvb.kernel("sm_90a", threads=64)
def assertioned(k: Any, x: nvb.Pointer[nvb.f32], n: nvb.i32) -> None:
    """By an assertion."""
    at = k.block_id() * 64 + k.thread_id()
    k.print("thread {} has {:.2f}", at, x[at], when=at == 0)
    k.assert_(at < n, "index {} of {}: {}", at, n, x[at])


@nvb.kernel("sm_90a", threads=64)
def traped(k: Any, x: nvb.Pointer[nvb.f32], n: nvb.i32) -> None:
    """By a trap."""
    at = k.block_id() * 64 + k.thread_id()
    k.print("thread {} has {:.2f}", at, x[at], when=at == 0)
    with k.if_(at >= n):
        k.trap("index {} of {}: {}", at, n, x[at])


KERNELS = {"assertion": assertioned, "trap": traped}
