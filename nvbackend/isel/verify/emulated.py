"""The warning that a chip does not have what was selected: it works, and ptxas makes something slower of it."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Location, Rule, Severity
from nvbackend.intrinsics.mma.emulation import emulation
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.target.target import Target

EMULATED = Rule(
    id="row.emulated",
    message="{target} has no {instruction}: ptxas makes {expansion} of it",
    fix="{instead}",
    why="It computes the same, at a fraction of the speed that the instruction has where it is native.",
    reference="SASS of ptxas 13.5 for each chip (benchmarks/emulation.py)",
    severity=Severity.WARNING,
)


def emulation_warnings(row: Row, target: Target, at: Location | None = None) -> Iterator[Diagnostic]:
    """The warning row.emulated where `target` has no such instruction (severity WARNING)."""
    found = emulation(row, target.number)
    if found is not None:
        yield EMULATED.diagnose(
            at=at, target=target, instruction=row.ptx, expansion=found.expansion, instead=found.instead
        )
