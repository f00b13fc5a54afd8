"""What a thread learns at an mbarrier: which operations others have waited for before they arrived there.

An arrival hands over what its thread has waited for on some path to it. It hands nothing over to a thread that asks
before it: where a thread that arrives is past a barrier of the CTA which the one that asks has not reached yet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nvbackend.isel.machine.function import MachineFunction
from nvbackend.lint.lifted.barrier_counts import BarrierCounts
from nvbackend.lint.lifted.lift import Line


class Handovers:
    """The arrivals of one function, by their positions, with the operations that are complete there on some path."""

    def __init__(
        self, function: MachineFunction, lines: Sequence[Line], complete: Mapping[int, Collection[int]]
    ) -> None:
        self._counts = BarrierCounts(function, lines)
        self._arrivals: dict[int, list[int]] = {}
        for arrival, operations in complete.items():
            for operation in operations:
                self._arrivals.setdefault(operation, []).append(arrival)

    def may_learn(self, asked: int, operation: int) -> bool:
        """Whether a thread may know by its wait at `asked` that an operation is complete."""
        arrivals = self._arrivals.get(operation, ())
        return not all(self._counts.are_more_through(operation, arrival, asked) for arrival in arrivals)
