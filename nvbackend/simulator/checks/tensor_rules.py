"""Mistakes of order on tensor memory that a run shows. The verifier has the same ids for what is certain before."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_ORDER = "PTX ISA 9.7.16.6 (tcgen05 memory consistency: asynchronous operations, fences, completion)"
_FENCE = "PTX ISA 9.7.16.11.1 (tcgen05.fence)"

MISSING_WAIT_ST = Rule(
    id="tcgen05.missing-wait-st",
    message="{now} {cells}, which {earlier} of this warp may still be writing",
    fix="put tcgen05.wait::st between the two: k.tcgen05.wait_st()",
    why="Stores are not ordered with what follows: sometimes the old contents are read.",
    reference=_ORDER,
)
MISSING_WAIT = Rule(
    id="tcgen05.missing-wait",
    message="{now} {cells}, which {earlier} may still be writing: nothing waits for the mbarrier of its commit",
    fix="commit after the mma and wait for the mbarrier, in the warp that goes on or in one that it waits for",
    why="An mma continues after its issue, and after the commit too: the accumulator is read half done.",
    reference=_ORDER,
)
WRITE_IN_FLIGHT = Rule(
    id="tcgen05.write-in-flight",
    message="{now} {cells}, which {earlier} may still be reading or writing",
    fix="wait before this line: for the mbarrier of the commit after an mma, by tcgen05.wait::ld after a load, and by "
    "a barrier or mbarrier for another warp",
    why="It continues after its issue: it gets old, new or mixed columns, depending on timing. Nothing traps.",
    reference=_ORDER,
)
MISSING_FENCE_BEFORE = Rule(
    id="tcgen05.missing-fence-before",
    message="{now} {cells} after a barrier, and no tcgen05.fence::before_thread_sync is between {earlier} and the "
    "barrier",
    fix="put k.tcgen05.fence_before_thread_sync() after the wait for it, before the barrier or arrival",
    why="The barrier does not order tensor memory.",
    reference=_FENCE,
)
MISSING_FENCE_AFTER = Rule(
    id="tcgen05.missing-fence-after",
    message="{now} {cells} after a wait for {earlier}, with no tcgen05.fence::after_thread_sync between",
    fix="put k.tcgen05.fence_after_thread_sync() after the wait",
    why="The access may be moved before the wait, which orders other memory only.",
    reference=_FENCE,
)
MISSING_BARRIER = Rule(
    id="tcgen05.missing-barrier",
    message="{now} {cells}, and nothing orders it after {earlier} of another warp",
    fix="put a barrier or an mbarrier of both warps between the two, with k.tcgen05.fence_before_thread_sync() before "
    "it and k.tcgen05.fence_after_thread_sync() after it",
    why="The hardware runs the warps in any order: what is read is sometimes old.",
    reference=_ORDER,
)
