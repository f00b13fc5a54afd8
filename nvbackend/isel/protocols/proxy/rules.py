"""The rules of the two proxies: ordinary accesses to shared memory, and those that continue after their instruction."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

PROXIES = "PTX ISA 8.6 (proxies)"

MISSING_FENCE = Rule(
    id="proxy.missing-fence",
    message="{reader} {does} {memory} through the async proxy, and {writer} wrote it through the generic proxy with no "
    "fence.proxy.async between them",
    fix="{fix}",
    why="A barrier of threads does not order the two proxies: the write may come after what should follow it.",
    reference=f"{PROXIES}; PTX ISA 9.7.13 (fence.proxy.async)",
)
WRITE_IN_FLIGHT = Rule(
    id="proxy.write-in-flight",
    message="{writer} overwrites {memory} while {reader} may still read it: {reason}",
    fix="{fix}",
    why="The asynchronous instruction reads old, new or mixed bytes, depending on timing. Nothing traps.",
    reference=f"{PROXIES}; PTX ISA 9.7.15.7.3 (wgmma.wait_group), 9.7.9 (cp.async.bulk.wait_group)",
)
READ_BEFORE_WAIT = Rule(
    id="proxy.read-before-wait",
    message="{reader} reads {memory}, which {writer} fills, with no wait on {barrier} between them",
    fix="put k.mbarrier.wait before this line, for the phase of {barrier} in which these bytes arrive",
    why="The bytes may not have come yet: what is read depends on timing. Nothing traps.",
    reference="PTX ISA 9.7.9 (cp.async.bulk, mbarrier-based completion)",
)
WAITED_BY_OTHERS = Rule(
    id="proxy.waited-by-others",
    message="{reader} reads {memory} in thread {thread} too, which does not wait on {barrier}: other threads do",
    fix="let every thread that reads wait, outside of the block of one thread or warp, or put k.barrier.sync() "
    "after that block",
    why="A wait holds its own thread only: the others read while the bytes come. Nothing traps.",
    reference="PTX ISA 9.7.13.15.16 (mbarrier.try_wait), 8 (memory consistency model: causality order)",
)
COPY_READ_BEFORE_WAIT = Rule(
    id="async-copy.read-before-wait",
    message="{reader} reads {memory}, which {writer} fills, and the copy may not have come yet: {reason}",
    fix="{fix}",
    why="The bytes may not have come yet: what is read depends on timing. Nothing traps.",
    reference="PTX ISA 9.7.9 (cp.async.wait_group)",
)
STORE_NOT_COMMITTED = Rule(
    id="proxy.store-not-committed",
    message="the kernel ends with {reader} in a bulk group that was never committed, so no wait covers its read of "
    "{memory}",
    fix="put k.tma.commit_group() after {reader}, and k.tma.wait_group(reading=True) in the same thread before the "
    "kernel ends",
    why="The shared memory may be given to the next CTA while it is read; a wait sees committed groups only.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.commit_group)",
)
STORE_NOT_WAITED = Rule(
    id="proxy.store-not-waited",
    message="the kernel ends while {reader} may still read {memory}: {reason}",
    fix="put k.tma.wait_group(reading=True), or the epilogue's finish(), in the thread that stored, before the kernel "
    "ends",
    why=("The shared memory may be given to the next CTA while it is read, so the stored tile is sometimes wrong."),
    reference="PTX ISA 9.7.9 (cp.async.bulk.wait_group)",
)
REFILL = Rule(
    id="proxy.refill",
    message="{writer} fills {memory} again, and no barrier is between this and {reader}, by which other warps may "
    "still read it",
    fix="put k.barrier.sync() after the wgmma.wait_group of {reader}, or let all who multiply arrive on an "
    "mbarrier and wait for it before this line",
    why="A thread waits for its own warp's multiplies only: those of a slower warp read old, new or mixed bytes.",
    reference=f"{PROXIES}; PTX ISA 9.7.15.7.3 (wgmma.wait_group: of the executing threads)",
)
REFILL_IN_FLIGHT = Rule(
    id="proxy.refill-in-flight",
    message="{writer} fills {memory} again while {reader} may still read it: no wait for an mbarrier comes between",
    fix="put k.tcgen05.commit(barrier) after {reader}, and k.mbarrier.wait(barrier, parity) before this line",
    why="A tcgen05 operation continues after its issue: it reads old, new or mixed bytes. Nothing traps.",
    reference=f"{PROXIES}; PTX ISA 9.7.16.6 (tcgen05 memory consistency: completion of asynchronous operations)",
)
