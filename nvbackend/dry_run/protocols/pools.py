"""setmaxnreg: the registers of each warpgroup, and those that are left in each CTA's pool."""

from __future__ import annotations

from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import BLOCKED, DONE, Outcome, Step
from nvbackend.intrinsics.row.semantics import Budget


def change(state: State, step: Step) -> Outcome:
    """A warpgroup gives registers back, or takes more as soon as there are enough."""
    count = step.instr.immediates["registers"]
    key = step.cta, step.warps[0] // 4
    more = count - state.registers[key]
    if step.instr.semantics.budget is Budget.RAISE and more > state.pools[step.cta]:
        return BLOCKED
    if (more > 0) is (step.instr.semantics.budget is Budget.RAISE):
        state.pools[step.cta] -= more
        state.registers[key] = count
    return DONE
