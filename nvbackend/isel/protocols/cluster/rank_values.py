"""The run-time values of a function as the CTA of one rank has them, and the bytes that its accesses are then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nvbackend.isel.flow.memory_uses import DEFINED_IN
from nvbackend.isel.flow.paths import cluster_size
from nvbackend.isel.machine.function import MachineFunction, RunTimeValues, Scope
from nvbackend.isel.protocols.shared.footprints import Footprints


@dataclass(frozen=True)
class OfRank:
    """The values of a function in the CTA of one rank."""

    values: RunTimeValues
    rank: int
    threads: int

    def numbers(self, name: str) -> Sequence[int] | None:
        """The value in each thread of this CTA."""
        known, by_rank = self.values.numbers(name), self.values.ranks(name)
        return known if known is not None or by_rank is None else (by_rank[self.rank],) * self.threads

    def ranks(self, name: str) -> Sequence[int] | None:
        """The value in each CTA of the cluster."""
        return self.values.ranks(name)

    def counted(self, name: str) -> tuple[int, int] | None:
        """The values in the first and in the last round of the loop that it counts."""
        return self.values.counted(name)

    def is_same(self, name: str) -> bool:
        """Whether all threads of the cluster have it: a parameter, or what counts a known number of rounds."""
        return DEFINED_IN not in name or self.values.counted(name) is not None

    def scope(self, name: str) -> Scope:
        """Over which threads it is the same."""
        return self.values.scope(name)


def footprints_by_rank(function: MachineFunction, values: RunTimeValues) -> list[Footprints]:
    """The footprints in the CTA of each rank."""
    threads = function.attributes.get("threads")
    count = threads if isinstance(threads, int) else 0
    return [Footprints(function, OfRank(values, rank, count)) for rank in range(cluster_size(function))]
