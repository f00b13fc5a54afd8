"""The rules on tensor memory along the control flow: who has it, who is still writing it, who may read it."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_ALLOCATION = "PTX ISA 9.7.16.7.1 (tcgen05.alloc, dealloc, relinquish_alloc_permit)"
_ORDER = "PTX ISA 9.7.16.6 (tcgen05 memory consistency: asynchronous operations, fences, completion)"

MISSING_DEALLOC = Rule(
    id="tcgen05.missing-dealloc",
    message="the kernel may end here with the {columns} columns of {name} still allocated: {reason}",
    fix="give them back on every path: k.tcgen05.dealloc by the warp that allocated, or `with k.tcgen05.tmem(...)`",
    why="The columns stay taken: a later CTA of the SM waits in its allocation forever.",
    reference=_ALLOCATION,
)
DOUBLE_DEALLOC = Rule(
    id="tcgen05.double-dealloc",
    message="{name} is given back a second time on some path",
    fix="give it back once; take out one of the two",
    why="The columns may belong to another CTA by now, which uses them.",
    reference=_ALLOCATION,
)
DEALLOC_COLUMNS = Rule(
    id="tcgen05.dealloc-columns",
    message="{name} was allocated with {columns} columns, and {given} are given back",
    fix="give back {columns} columns, at the address that the allocation gave",
    why="The rest stays taken, or columns of another allocation become free while they are in use.",
    reference=_ALLOCATION,
)
TOTAL_COLUMNS = Rule(
    id="tcgen05.total-columns",
    message="with this allocation the kernel has {total} columns of tensor memory; an SM has {limit}",
    fix="give some back first, or allocate less: {names}",
    why="The allocation waits for columns that this very CTA holds: the kernel hangs.",
    reference=_ALLOCATION,
)
ALLOC_AFTER_RELINQUISH = Rule(
    id="tcgen05.alloc-after-relinquish",
    message="{name} is allocated after this CTA has relinquished its permit to allocate",
    fix="relinquish after the last allocation: k.tcgen05.tmem(..., relinquish=False) for all before it",
    why="The behaviour is undefined.",
    reference=_ALLOCATION,
)
NOT_ALLOCATED = Rule(
    id="tcgen05.not-allocated",
    message="{instruction} accesses {name} after it was given back on some path",
    fix="give it back after the last access of any warp, with a barrier between",
    why="The columns may belong to another CTA by now: its accumulators are read or overwritten.",
    reference=_ALLOCATION,
)
MISSING_WAIT_ST = Rule(
    id="tcgen05.missing-wait-st",
    message="{instruction} accesses columns of {name} that a tcgen05.st may still be writing",
    fix="put k.tcgen05.wait_st() between the two",
    why="Stores are not ordered with what follows: sometimes the old contents are read.",
    reference=_ORDER,
)
MISSING_COMMIT = Rule(
    id="tcgen05.missing-commit",
    message="{what}, and no tcgen05.commit is after {mma}",
    fix="put k.tcgen05.commit(barrier) after the last mma, in the thread that issues it",
    why="Without a commit no mbarrier completes when the mma is done: D is read too early, or freed in use.",
    reference="PTX ISA 9.7.16.12.1 (tcgen05.commit)",
)
MISSING_WAIT = Rule(
    id="tcgen05.missing-wait",
    message="{instruction} reads {name}, which {mma} may still be writing: no wait for its mbarrier is before it",
    fix="put k.mbarrier.wait(...) on the barrier of the commit, and k.tcgen05.fence_after_thread_sync(), before it",
    why="An mma continues after its issue, and after the commit too: the accumulator is read half done.",
    reference=_ORDER,
)
WRITE_IN_FLIGHT = Rule(
    id="tcgen05.write-in-flight",
    message="{instruction} overwrites columns of {name} that {mma} may still be reading or writing: no wait for its "
    "mbarrier is before it",
    fix="commit after the mma, and put k.mbarrier.wait(...) on the barrier of the commit before this line",
    why="An mma continues after issue: it multiplies old, new or mixed columns, depending on timing. Nothing traps.",
    reference=_ORDER,
)
MISSING_FENCE_AFTER = Rule(
    id="tcgen05.missing-fence-after",
    message="{instruction} reads {name} after a wait with no tcgen05.fence::after_thread_sync between",
    fix="put k.tcgen05.fence_after_thread_sync() after the wait",
    why="The load may be moved before the wait, which orders other memory only.",
    reference="PTX ISA 9.7.16.11.1 (tcgen05.fence)",
)
MISSING_FENCE_BEFORE = Rule(
    id="tcgen05.missing-fence-before",
    message="{name} was read here, and another warp gives it back: no tcgen05.fence::before_thread_sync follows",
    fix="put k.tcgen05.fence_before_thread_sync() after the wait for the load, before the barrier or arrival that "
    "lets that warp go on",
    why="The barrier does not order the load: the columns may be someone else's when it reads them.",
    reference="PTX ISA 9.7.16.11.1 (tcgen05.fence)",
)
MISSING_BARRIER = Rule(
    id="tcgen05.missing-barrier",
    message="{name} was read here, and another warp gives it back without waiting: no barrier or arrival follows the "
    "{last}",
    fix="put {barrier} after the {last}, where that warp comes too before it gives {name} back",
    why="The columns may belong to another CTA while they are read: wrong numbers, and nothing traps.",
    reference=_ALLOCATION,
)
UNDEFINED_ACCUMULATOR = Rule(
    id="tcgen05.undefined-accumulator",
    message="{instruction} adds to {name}, which nothing has written before",
    fix="give the first mma of the chain accumulate=False, or accumulate=step > 0 in a loop",
    why="Tensor memory holds what another kernel left there.",
    reference="PTX ISA 9.7.16.10.9.1 (enable-input-d)",
)
