"""The noun `k.cluster` of builders that have tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.ops.sync.cluster import Cluster
from nvbackend.diagnostics import Diagnostic, user_facing

if TYPE_CHECKING:
    from nvbackend.builder.tiles.mma.wgmma import TiledWgmma
    from nvbackend.builder.tiles.split_k.reduce_scatter import ReduceScatter


@user_facing
class ClusterOfTiles(Cluster):
    """The CTAs of a cluster: ranks, barriers, shared memory of peers (PTX ISA 9.7.13.3)."""

    _builder: FunctionBuilder
    _exchanges: list[ReduceScatter]

    def _belong_to(self, builder: FunctionBuilder) -> None:
        """It is a noun of `builder`."""
        self._builder, self._exchanges = builder, []

    def reduce_scatter(self, mma: TiledWgmma, *, own_first: bool = False) -> ReduceScatter:
        """Add the sums that the CTAs of the cluster have of one tile of `mma`, and give each CTA those of its columns.

        It is for CTAs that share the depth of a tile, each with steps of its own: see `ReduceScatter`. Call it before
        `k.mbarrier.ready`, which makes its mbarrier visible. It takes shared memory for the sums of a tile; with
        `own_first` for a part less, and no CTA sends its own sums to itself, but each multiplies the columns that are
        its own before the others, as `parts()` says. Raises reduce-scatter.cluster, reduce-scatter.tile, shared.size.
        """
        from nvbackend.builder.tiles.split_k.reduce_scatter import ReduceScatter

        made = ReduceScatter(self._builder, mma, own_first=own_first)
        self._exchanges.append(made)
        return made

    def _faults(self) -> Iterator[Diagnostic]:
        """What is missing at the end of the kernel, of each reduce-scatter."""
        for exchange in self._exchanges:
            yield from exchange._faults()
