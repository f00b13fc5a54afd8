"""Which branches part the threads that come to a block."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.finished import kept
from nvbackend.isel.flow.graphs import ControlFlow
from nvbackend.isel.machine.function import Branch, MachineFunction


@dataclass(frozen=True, slots=True)
class Parting:
    """A branch at the end of `block` whose two ways are taken by different threads."""

    block: str
    branch: Branch

    def described(self) -> str:
        """What diagnostics call it."""
        condition = f" on `{self.branch.condition}`" if self.branch.condition else ""
        return f"the branch of line {self.branch.location.line}{condition}" if self.branch.location else "a branch"

    def notes(self) -> tuple[tuple[str, Location | None], ...]:
        """Its place."""
        return (("the threads part here", self.branch.location),) if self.branch.location else ()


@dataclass(frozen=True, slots=True)
class Mistake:
    """A broken rule and its cause: several instructions after one branch are one mistake."""

    cause: tuple[str, str]
    diagnostic: Diagnostic


@kept
def divergence_of(function: MachineFunction) -> Divergence:
    """Which branches of `function` part threads, found once."""
    return Divergence(function, ControlFlow({name: block.successors for name, block in function.blocks.items()}))


class Divergence:
    """The divergent branches of a function, by the size of the groups that still go one way, and what they decide."""

    def __init__(self, function: MachineFunction, flow: ControlFlow) -> None:
        self.flow = flow
        self.partings = [
            Parting(name, block.branch)
            for name, block in function.blocks.items()
            if block.branch is not None and name in flow.successors
        ]
        self._regions: dict[str, set[str]] = {}
        decided: dict[Scope, set[str]] = {scope: set() for scope in Scope}
        alike: dict[tuple[Scope, str | None], list[str]] = {}
        for parting in self.partings:
            alike.setdefault((parting.branch.uniform, flow.meeting[parting.block]), []).append(parting.block)
        for (scope, _), blocks in alike.items():
            # Branches that meet at one place are followed together, so that many of them cost no more than one.
            if scope is not Scope.GRID:
                decided[scope] |= flow.decided(blocks)
        self._parted = {
            needed: set[str]().union(*(blocks for scope, blocks in decided.items() if scope < needed))
            for needed in Scope
        }

    def is_parted(self, block: str, needed: Scope) -> bool:
        """Whether threads of one group of `needed` size may come to `block` without the rest of the group."""
        return block in self._parted[needed]

    def parting(self, block: str, needed: Scope) -> Parting | None:
        """The branch that parts a group of `needed` size before `block`, the last one in the text; None for none."""
        return next(iter(self.partings_of(block, needed)), None) if self.is_parted(block, needed) else None

    def partings_of(self, block: str, needed: Scope) -> Iterator[Parting]:
        """Every branch that parts a group of `needed` size before `block`, the last one in the text first."""
        for parting in reversed(self.partings):
            if parting.branch.uniform < needed and block in self.region(parting):
                yield parting

    def region(self, parting: Parting) -> set[str]:
        """The blocks that the branch decides about."""
        if parting.block not in self._regions:
            self._regions[parting.block] = self.flow.region(parting.block)
        return self._regions[parting.block]
