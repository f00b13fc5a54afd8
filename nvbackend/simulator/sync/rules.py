"""What a running kernel does wrong with a barrier, an mbarrier, or a group of asynchronous operations.

An id that the verifier has too names the same mistake: there it is certain before the kernel runs, here it happened.
"""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_MBARRIER = "PTX ISA 9.7.13.15 (mbarrier)"
_BARRIER = "PTX ISA 9.7.13.1 (barrier)"

NOT_IN_COMMON = Rule(
    id="convergence.operand",
    message="all threads of a {group} have to give {what} the same {operand}, and {thread} gives {value:#x} where "
    "{first} gives {other:#x}",
    fix="compute it from what the {group} has in common: the instruction itself finds the part of each thread",
    why="It takes the value of some thread, and PTX does not say of which: wrong numbers, and nothing traps.",
    reference="PTX ISA 9.7.15.5 (wgmma: matrix descriptors), 9.7.16.8 (tcgen05.ld, .st: taddr), 9.7.14.4 (wmma: p)",
)
MEMBERS = Rule(
    id="warp.members",
    message="{what} of {thread}: lane {lane} {problem} the members {members}",
    fix="give a bit for every lane that comes here, and for no other, and in each of these lanes the same mask; read "
    "only what those send",
    why="The result of a lane that the mask does not name, or of a read from such a lane, is undefined.",
    reference="PTX ISA 9.7.9 (shfl.sync), 9.7.13 (bar.warp.sync, vote.sync, match.sync, redux.sync): membermask",
)
MBARRIER_UNINITIALISED = Rule(
    id="mbarrier.uninitialised",
    message="{what} of {thread} uses {place} as an mbarrier, {reason}",
    fix="initialise it in one thread and let the others wait for that: k.mbarrier.ready()",
    why="The hardware takes whatever the 8 bytes hold for counts: waits that hang or pass at once.",
    reference=_MBARRIER,
)
MBARRIER_DOUBLE_INIT = Rule(
    id="mbarrier.double-init",
    message="{what} of {thread} initialises {place}, which is an mbarrier already ({state})",
    fix="initialise it once, or invalidate it first (mbarrier.inval)",
    why="The behaviour is undefined: arrivals and waits of the old barrier meet the new one's counts.",
    reference=_MBARRIER,
)
MBARRIER_OVERWRITTEN = Rule(
    id="mbarrier.overwritten",
    message="{what} of {thread} {verb} {place}, which is an mbarrier ({state})",
    fix="put the data elsewhere, or invalidate the mbarrier first (mbarrier.inval)",
    why="Only mbarrier instructions may touch the object: its counts are destroyed, or what is read means nothing.",
    reference=_MBARRIER,
)
MBARRIER_ADDRESS = Rule(
    id="mbarrier.address",
    message="{what} of {thread} takes {place} as an mbarrier, which is not at a multiple of 8 bytes",
    fix="align the mbarrier to 8 bytes",
    why="The access is misaligned: the kernel stops with an error that does not say where.",
    reference=_MBARRIER,
)
MBARRIER_COUNT = Rule(
    id="mbarrier.count",
    message="{what} of {thread} on {place}: {problem}",
    fix="count the threads that arrive in a phase",
    why="The field has 20 bits; another count is undefined.",
    reference=_MBARRIER,
)
MBARRIER_ARRIVALS = Rule(
    id="mbarrier.arrivals",
    message="{what} of {thread} on {place}: {problem}",
    fix="initialise the mbarrier to the arrivals of one phase, and let a thread wait before it arrives in the next one",
    why="The pending count runs below zero: the behaviour is undefined, and a phase ends early or never.",
    reference=_MBARRIER,
)
MBARRIER_EXPECT_TX = Rule(
    id="mbarrier.expect-tx",
    message="{what} of {thread} on {place}: {problem}",
    fix="split the copies over several phases or mbarriers",
    why="The field of pending bytes has 21 bits; a count that overflows it is undefined.",
    reference=_MBARRIER,
)
MBARRIER_PARITY = Rule(
    id="mbarrier.parity",
    message="{what} of {thread} on {place} waits for parity {parity}",
    fix="pass the phase modulo 2",
    why="A parity is 0 or 1; the behaviour for another number is undefined.",
    reference=_MBARRIER,
)
MBARRIER_STATE = Rule(
    id="simulator.mbarrier-state",
    message="{what} of {thread} on {place} waits for phase {waited}; the mbarrier is in phase {phase}",
    fix="wait with the state word of the current phase or of the one before it",
    why="An older state word is undefined: the wait passes or hangs.",
    reference=_MBARRIER,
)
MBARRIER_WAITED_ON = Rule(
    id="simulator.mbarrier-waited-on",
    message="{what} of {thread} ends {place} while {waiting} wait for it ({state})",
    fix="let every thread finish its wait before one invalidates the mbarrier: a barrier of the CTA between them",
    why="The waits look at memory that holds no mbarrier any more: they hang or pass at once.",
    reference=_MBARRIER,
)
BARRIER_ID = Rule(
    id="barrier.id",
    message="{what} of {thread} names barrier {given}; a CTA has the barriers 0 to 15",
    fix="use one of 0 to 15",
    why="The behaviour is undefined.",
    reference=_BARRIER,
)
BARRIER_THREADS = Rule(
    id="barrier.threads",
    message="{what} of {thread} counts {threads} threads, which is not a positive multiple of 32",
    fix="count whole warps",
    why="A barrier counts warps: the behaviour for another number is undefined.",
    reference=_BARRIER,
)
BARRIER_COUNTS = Rule(
    id="simulator.barrier-counts",
    message="{what} of {thread} counts {threads} threads at barrier {barrier}, where {earlier} counted {others} in the "
    "same phase",
    fix="give every arrival of one phase the same count",
    why="The count of a phase is that of its first arrival: the others wait for another number than they say.",
    reference=_BARRIER,
)
BARRIER_CROWD = Rule(
    id="simulator.barrier-crowd",
    message="{what} of {thread} brings {threads} threads to barrier {barrier}, which counts {expected} and has "
    "{arrived}",
    fix="count every thread that arrives in one phase",
    why="The behaviour is undefined when more threads arrive than the barrier counts.",
    reference=_BARRIER,
)
CLUSTER_ARRIVED_TWICE = Rule(
    id="cluster.arrived-twice",
    message="{what} of {thread} arrives at the cluster's barrier again before it has waited",
    fix="wait after each arrival: barrier.cluster.wait between two barrier.cluster.arrive",
    why="The behaviour is undefined.",
    reference="PTX ISA 9.7.13.3 (barrier.cluster)",
)
CLUSTER_WAIT_ALONE = Rule(
    id="cluster.wait-alone",
    message="{what} of {thread} waits at the cluster's barrier without having arrived",
    fix="arrive before the wait: barrier.cluster.arrive",
    why="The behaviour is undefined.",
    reference="PTX ISA 9.7.13.3 (barrier.cluster)",
)
