"""Fences between threads and between proxies."""

from __future__ import annotations

from nvbackend.builder.core.instructions import issue
from nvbackend.builder.core.noun import Noun
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.isel.target.target import variant


@user_facing
class Fence(Noun):
    """Fences between threads and between proxies (PTX ISA 9.7.13.4)."""

    __noun__ = "fence"
    __usual__ = "proxy_async"

    def shared(self, semantics: str, *, proxy: bool = False) -> None:
        """fence.acquire or release, only for shared memory, at cluster scope; with `proxy` toward the async proxy.

        "acquire" is on shared::cluster, "release" on shared::cta. Raises instruction.variant, target.feature,
        target.row-ptx-version. PTX ISA 9.7.13.4.
        """
        issue(self._k, variant("fence", sync.fence_shared, semantics, proxy=proxy))

    def proxy_alias(self) -> None:
        """fence.proxy.alias: order accesses to one memory through different virtual addresses. PTX ISA 9.7.13.4."""
        issue(self._k, sync.fence_proxy_alias())

    def membar(self, level: str) -> None:
        """membar: the older spelling of fence.sc, at "cta", "gl" (the GPU) or "sys" (instruction.variant)."""
        issue(self._k, variant("membar", sync.membar, level))

    def thread(self, semantics: str = "acq_rel", scope: str = "gpu") -> None:
        """fence: order this thread's memory accesses; acq_rel, sc, acquire or release, at cta, cluster, gpu or sys."""
        issue(self._k, variant("fence", sync.fence, semantics, scope))

    def mbarrier_init(self) -> None:
        """Make this thread's mbarrier.init visible to the cluster and the async proxy."""
        issue(self._k, sync.fence_mbarrier_init())

    def proxy_async(self, space: str | None = "shared::cta") -> None:
        """Order this thread's accesses to `space` (None: every space) before later accesses by TMA and wgmma."""
        issue(self._k, sync.fence_proxy_async(space))
