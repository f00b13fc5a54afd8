"""What a run has found, and which of it is the cause: one diagnostic for one mistake."""

from __future__ import annotations

from dataclasses import dataclass

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.isel.machine.function import MachineInstr

ACCOUNTING, ORDER, EXCHANGE, EARLY, UNWRITTEN, DEADLOCK = range(6)
PARITY = ORDER
"""What explains what: a wrong count makes waits pass early, a wait that passes early leaves accesses in no order, and
any of them may end in a deadlock."""
Notes = tuple[tuple[str, Location | None], ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake, how far it explains others, and the memory or barrier that it is about."""

    diagnostic: Diagnostic
    class_: int
    about: str


class Findings:
    """The findings of a run, in the order in which they were made."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._keys: set[object] = set()
        self.lost = False
        """Whether something was unknown on which everything after it depends."""

    def add(self, class_: int, about: str, rule: Rule, at: MachineInstr, notes: Notes, **values: object) -> None:
        """Remember a mistake; the first of each rule and place counts."""
        key = (rule.id, at.location if at.location is not None else id(at))
        if self.lost or key in self._keys:
            return
        self._keys.add(key)
        self._found.append(Finding(rule.diagnose(at=at.location, notes=notes, **values), class_, about))

    def __bool__(self) -> bool:
        return bool(self._found)

    def causes(self) -> list[Diagnostic]:
        """The first mistake of those that explain the others."""
        if not self._found:
            return []
        least = min(found.class_ for found in self._found)
        return [next(found.diagnostic for found in self._found if found.class_ == least)]
