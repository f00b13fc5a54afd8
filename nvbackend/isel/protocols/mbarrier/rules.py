"""The rules of mbarriers over a whole kernel: their life, their arrivals, their bytes and their phases."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

PTX_MBARRIER = "PTX ISA 9.7.13.15"

UNINITIALISED = Rule(
    id="mbarrier.uninitialised",
    message="{instruction} uses {barrier}, {reason}",
    fix="initialise it first: k.mbarrier.array(count, arrivals), or k.mbarrier.init(barrier, arrivals), then "
    "k.mbarrier.ready()",
    why="The memory holds what was there before: the thread waits forever, or not at all.",
    reference=f"{PTX_MBARRIER} (mbarrier.init)",
)
NOT_READY = Rule(
    id="mbarrier.not-ready",
    message="{instruction} uses {barrier}, and on some path {missing} is between its initialisation and this line",
    fix="put k.mbarrier.ready() after the last mbarrier.init: the fence, and a barrier of {whom}",
    why="Another thread, another CTA or the async proxy may access the barrier before it is initialised.",
    reference=f"{PTX_MBARRIER} (mbarrier.init), 9.7.13.4 (fence.mbarrier_init)",
)
DOUBLE_INIT = Rule(
    id="mbarrier.double-init",
    message="{barrier} is initialised here while it may be a barrier already",
    fix="initialise it once, or put mbarrier.inval before: k.mbarrier.inval(barrier)",
    why="Initialising a barrier in use is undefined: arrivals and waits of both lives mix.",
    reference=f"{PTX_MBARRIER} (mbarrier.init, mbarrier.inval)",
)
AFTER_INVAL = Rule(
    id="mbarrier.after-inval",
    message="{instruction} uses {barrier}, which is invalidated on some path to this line",
    fix="invalidate it after its last use, or initialise it again before this line",
    why="The memory is not a barrier any more; the result is undefined.",
    reference=f"{PTX_MBARRIER} (mbarrier.inval)",
)
OVERWRITTEN = Rule(
    id="mbarrier.overwritten",
    message="{instruction} writes to {barrier}, which is a barrier at this line",
    fix="put the data elsewhere, or end its life first, with k.mbarrier.scope(...) or k.mbarrier.inval(barrier) and a "
    "barrier of the CTA",
    why="The counts of the phase are lost: threads wait forever, or the memory is changed by late arrivals.",
    reference=f"{PTX_MBARRIER} (mbarrier.inval)",
)
ARRIVALS = Rule(
    id="mbarrier.arrivals",
    message="a phase of {barrier} counts {count}, and the kernel's arrivals are {arrivals}",
    fix="let {enough}; or let it count {total}: by arrivals= of k.mbarrier.array, or, of the empty mbarriers of a "
    "ring, by consumers= of k.pipeline",
    why="A phase completes too late, never, or several times while others wait for one: a hang, or stale data.",
    reference=f"{PTX_MBARRIER} (mbarrier.init, phase completion)",
)
NO_ARRIVAL = Rule(
    id="mbarrier.no-arrival",
    message="this waits for a phase of {barrier}, and nothing in the kernel arrives on it",
    fix="let the threads that it waits for arrive on it: k.mbarrier.arrive(barrier, expect_tx=bytes) before copies, "
    "k.tcgen05.commit(barrier) after tcgen05.mma, else k.mbarrier.arrive(barrier), whose when= chooses the threads; "
    "if the kernel has such a call, make sure that it has threads that come there",
    why="A phase completes by its arrivals; bytes alone never complete one, so the wait does not end.",
    reference=f"{PTX_MBARRIER} (phase completion)",
)
UNEXPECTED_BYTES = Rule(
    id="mbarrier.unexpected-bytes",
    message="{instruction} completes its bytes on {barrier}, and nothing announces bytes on it",
    fix="announce them before the copy: k.mbarrier.arrive(barrier, expect_tx=bytes)",
    why="The phase completes with its arrivals, whether the bytes have come or not; then their count underflows.",
    reference=f"{PTX_MBARRIER} (expect-tx operation)",
)
MISSING_BYTES = Rule(
    id="mbarrier.missing-bytes",
    message="{bytes} bytes are announced on {barrier}, and no copy of the kernel completes on it",
    fix="give the copies this barrier, or arrive without bytes: k.mbarrier.arrive(barrier)",
    why="The phase never completes, and every waiter hangs.",
    reference=f"{PTX_MBARRIER} (expect-tx operation, complete-tx operation)",
)
WRONG_BYTES = Rule(
    id="mbarrier.wrong-bytes",
    message="{expected} bytes are announced on {barrier} {when}, and the copies that complete on it bring {brought}",
    fix="announce {brought} bytes, which is what the copies bring to this CTA; or, in a block of a ring, fill every "
    "tile of the stage, or say how many bytes each gets: ring.fill(bytes={{...}})",
    why="Too many, and the phase never completes; too few, and it completes before the bytes are there.",
    reference=f"{PTX_MBARRIER} (expect-tx operation, complete-tx operation)",
)
WRONG_BARRIER = Rule(
    id="mbarrier.wrong-barrier",
    message="{copy} completes on {barrier}, which gets {gets} bytes and announces {announces}; {other} announces "
    "{bytes} and gets {has}",
    fix="{fix}",
    why="The one phase completes early or its count underflows, the other one never completes: every waiter hangs.",
    reference=f"{PTX_MBARRIER} (expect-tx operation, complete-tx operation)",
)
PTX_MULTICAST = "PTX ISA 9.7.9 (cp.async.bulk.tensor, multicast)"
UNEXPECTED_IN_PEER = Rule(
    id="mbarrier.unexpected-in-peer",
    message="the CTA of rank {rank} gets bytes and announces none on {barrier}: {copies}",
    fix="announce the bytes in every CTA that gets them: take the expect_tx out of the branch over the CTA's rank, or "
    "send that CTA none: change the mask, or the rank, of the copy",
    why="Each CTA's own barrier counts its bytes: a phase completes early or never, or the CTA ends too soon.",
    reference=f"{PTX_MBARRIER} (expect-tx operation); {PTX_MULTICAST}",
)
MISSING_IN_PEER = Rule(
    id="mbarrier.missing-in-peer",
    message="the CTA of rank {rank} announces {bytes} bytes on {barrier}, and no copy brings it any: {copies}",
    fix="send bytes to that CTA: bit {rank} of a mask, or rank {rank} of st.async; or announce bytes only in the CTAs "
    "that get some",
    why="Each CTA's own barrier counts its bytes: its phase never completes, and every waiter of that CTA hangs.",
    reference=f"{PTX_MBARRIER} (expect-tx operation, complete-tx operation); {PTX_MULTICAST}",
)
WRONG_IN_PEER = Rule(
    id="mbarrier.wrong-in-peer",
    message="the CTA of rank {rank} announces {expected} bytes on {barrier} {when}, and the copies of the cluster "
    "bring it {brought}: {copies}",
    fix="announce {brought} bytes in that CTA, or change the masks or ranks: each CTA that issues a copy brings its "
    "bytes to every CTA that the copy names",
    why="Too many, and the phase never completes; too few, and it completes before the bytes are there.",
    reference=f"{PTX_MBARRIER} (expect-tx operation, complete-tx operation); {PTX_MULTICAST}",
)
NO_ARRIVAL_IN_PEER = Rule(
    id="mbarrier.no-arrival-in-peer",
    message="the CTA of rank {rank} waits for a phase of {barrier}, and no arrival reaches it: {others}",
    fix="let the arrival reach that CTA too: multicast_mask= of a tcgen05.commit with bit {rank}, or "
    "k.mbarrier.arrive(barrier, rank={rank}, when=...)",
    why="Each CTA has a barrier of its own at the same place; an arrival is on one, unless it is multicast.",
    reference=f"{PTX_MBARRIER} (phase completion); PTX ISA 9.7.16 (tcgen05.commit, multicast)",
)
ARRIVALS_IN_PEER = Rule(
    id="mbarrier.arrivals-in-peer",
    message="{barrier} is initialised to {count} arrival(s) per phase, and the CTA of rank {rank} gets {total}: "
    "{others}",
    fix="let {count} arrival(s) reach that CTA, or initialise the barrier to as many as come",
    why="A phase completes too late, never, or several times while others wait for one: a hang, or stale data.",
    reference=f"{PTX_MBARRIER} (mbarrier.init, phase completion)",
)
PARITY_FIRST = Rule(
    id="mbarrier.parity-first",
    message="the first wait for {barrier} is for parity 1, and its first phase has parity 0",
    fix="wait for parity 0 first: k.mbarrier.wait(barrier, 0), or a variable that begins at 0; each phase that follows "
    "has the other parity",
    why="Before a barrier completes its first phase, the phase before counts as complete: the wait returns at once.",
    reference=f"{PTX_MBARRIER} (mbarrier.try_wait: phase parity)",
)
DEADLOCK = Rule(
    id="mbarrier.deadlock",
    message="this waits for the first phase of {barrier}, and no thread can complete it: {reason}",
    fix="{fix}",
    why="Threads wait for one another forever: the kernel hangs.",
    reference=f"{PTX_MBARRIER} (phase completion; mbarrier.try_wait: phase parity)",
)
PARITY_FIXED = Rule(
    id="mbarrier.parity-fixed",
    message="each round of this loop waits for parity {parity} of {barrier}, and nothing in the loop changes that",
    fix="flip the parity {when}: phase ^= 1; or use a ring, which owns its phases: k.pipeline(...)",
    why="Every second wait returns at once, before its phase has completed, and stale data is used.",
    reference=f"{PTX_MBARRIER} (mbarrier.try_wait: phase parity)",
)
PARITY_COUNTER = Rule(
    id="mbarrier.parity-counter",
    message="the parity waited for on {barrier} comes from {parity}, which {does}, while the barrier's index comes "
    "from {index}",
    fix="flip the parity where the index of the barrier begins again at 0, or use a ring: k.pipeline(...)",
    why="Parity and barrier go out of step: a wait returns before its phase has completed, or never.",
    reference=f"{PTX_MBARRIER} (mbarrier.try_wait: phase parity)",
)
