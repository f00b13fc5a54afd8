"""The last stage of a ring, which `ring.drain(in_flight=1)` keeps, where the kernel never calls `ring.release()`."""

from __future__ import annotations

from nvbackend.dry_run.objects.mbarriers import Mbarrier
from nvbackend.dry_run.order.words import line, warps
from nvbackend.dry_run.protocols.overruns import stages
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineInstr


def release_left_out(state: State, step: Step, barrier: Mbarrier) -> str:
    """The fix of a wait for a stage that consumers keep; "" where they do not, or release it somewhere."""
    function = state.launch.function
    came = [one for each in stages(state, barrier) for one in each.by.values() if one.arrivals]
    if (
        function is None
        or not came
        or not all(one.instr.facts.get(facts.RELEASES) == facts.STAGE_BEFORE for one in came)
    ):
        return ""
    ring = {use.object for one in came for use in one.instr.memory}
    if any(_releases(one) and not ring.isdisjoint(use.object for use in one.memory) for one in function.instructions()):
        return ""
    who = warps(one.warp for one in came)
    drains = " and ".join(sorted({line(one.instr) for one in came}))
    return (
        f"put ring.release() after the loop of {drains}, and k.wgmma.wait_group(0) before it: ring.drain(in_flight=1) "
        f"keeps the last stage of {who}, and the wait of {line(step.instr)} for its release never ends"
    )


def _releases(instr: MachineInstr) -> bool:
    return instr.facts.get(facts.RELEASES) == facts.LAST_STAGE
