"""What the sums of arrivals and bytes find, and whether threads share the mbarrier that they count on."""

from __future__ import annotations

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import BARRIER, Scope
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import RunTimeValues
from nvbackend.isel.protocols.mbarrier.uses import Use


@dataclass(frozen=True, slots=True)
class CountFinding:
    """A broken rule at `use`; `others` are the instructions that it was added up with; `values` go into the text."""

    rule: Rule
    use: Use
    others: tuple[Use, ...]
    values: tuple[tuple[str, object], ...] = ()


def is_spread(values: RunTimeValues | None, use: Use, threads: int | None) -> bool:
    """Whether the threads that execute it may each have an mbarrier of their own of the array."""
    if values is None or threads == 1 or use.exact.offset is not None:
        return False
    scope = values.scope(use.site.instr.operands.get(BARRIER, ""))
    return scope < (Scope.WARP if use.fact(facts.WARPS) == 1 else Scope.CTA)
