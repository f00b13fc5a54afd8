"""Mistakes of order that a run shows. An id that the verifier has too names the same mistake."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_MODEL = "PTX ISA 8 (Memory Consistency Model)"
_PROXIES = "PTX ISA 8.6 (Proxies)"

MISSED_PHASE = Rule(
    id="simulator.missed-phase",
    message="{thread} waits for phase {phase} of {place}, and nothing makes phase {following} wait until it has passed",
    fix="wait once for each phase, before the threads meet; or let each warp that waits give the buffer back after its "
    "last wait (k.mbarrier.arrive), and count these arrivals in mbarrier.init",
    why="A parity has one bit: a warp that looks after the next phase has completed waits for one that may never end.",
    reference="PTX ISA 9.7.13.15 (mbarrier)",
)
MISSED_COUNT = Rule(
    id="simulator.missed-count",
    message="{thread} waits until a counter is one number, and nothing makes {counting} wait until it has "
    "looked before that counts on",
    fix="wait until the counter is at least the number, >=, or give the next round another counter",
    why="A thread that looks after the next count sees another number, and waits forever.",
    reference=_MODEL,
)
BARRIER_CROWD = Rule(
    id="barrier.crowd",
    message="{thread} comes to barrier {barrier} of CTA {cta}, and may count in its last phase: nothing orders this "
    "after {other}, which came for that phase at PTX {site}",
    fix="give each group of threads a barrier of its own number, which no call of the builder uses beside it, and let "
    "who arrives wait for the answer before it arrives again",
    why="It opens when enough threads have come, whichever these are: some go on too early, the others never.",
    reference="PTX ISA 9.7.13.1 (barrier)",
)
MISSING_BARRIER = Rule(
    id="shared.missing-barrier",
    message="{now} {memory}, and nothing orders it after {earlier}",
    fix="put a barrier of both threads between them: k.barrier.sync(), or an mbarrier",
    why="The hardware runs the warps in any order: what is read is sometimes old.",
    reference=_MODEL,
)
OVERWRITTEN_EARLY = Rule(
    id="shared.overwritten-early",
    message="{now} {memory}, and nothing orders it after {earlier}",
    fix="put a barrier of both threads between the last read and the next write; where threads add to one element, use "
    "(address + index).atomic('add', value)",
    why="A warp that is late reads what belongs to the next round.",
    reference=_MODEL,
)
MISSING_WARP_SYNC = Rule(
    id="simulator.missing-warp-sync",
    message="{now} {memory}, and {lanes} since {earlier}",
    fix="let the lanes of the warp meet {between}: k.warp.sync(), or a barrier{sums}",
    why="The hardware may execute the lanes of a warp at different times: what is read is sometimes old.",
    reference="PTX ISA 9.7.13.2 (bar.warp.sync)",
)
RELAXED_BARRIER = Rule(
    id="simulator.relaxed-barrier",
    message="{now} {memory}, and nothing orders it after {earlier}: the barrier of the cluster between them is "
    "relaxed, at {barrier}",
    fix="leave relaxed out there: k.cluster.sync(), k.cluster.arrive(); or put k.fence.thread() before it in all "
    "threads",
    why="A relaxed arrival says that a thread has come, and orders no access of memory before it. Nothing traps.",
    reference="PTX ISA 9.7.13.3 (barrier.cluster.arrive)",
)
RACE = Rule(
    id="simulator.race",
    message="{now} {memory}, and nothing orders it after {earlier}",
    fix="order them: a barrier within a CTA or cluster, atomics with a fence or another kernel between CTAs{sums}",
    why="The hardware runs them in any order: the result differs from run to run.",
    reference=_MODEL,
)
FLAG_ORDER = Rule(
    id="simulator.flag-order",
    message="{now} {memory}, and nothing orders it after {earlier}: {flag} is between them, but {reason}",
    fix='store the flag with order="release" and load it with order="acquire", at a scope that both threads are in; or '
    "put k.fence.thread() before the store and after the load{proxy}",
    why=("The new flag may arrive before the data, or the data may come from a cache: sometimes it is old."),
    reference="PTX ISA 8.8 (causality order), 8.7 (release and acquire patterns)",
)
FLAG_UNWAITED = Rule(
    id="simulator.flag-unwaited",
    message="{now} {memory}, and nothing orders it with {earlier}: the read does not wait for {flag}",
    fix='let each thread that reads load the flag with order="acquire" first, until it is set; or let one thread do '
    "that, and put k.barrier.sync() between its load and the reads (k.warp.sync() if one warp makes them); or let each "
    "CTA use memory of its own{sums}",
    why="The hardware runs CTAs in any order: the read sometimes gets what was there before.",
    reference="PTX ISA 8.8 (causality order), 8.7 (release and acquire patterns)",
)
FLAG_WEAK = Rule(
    id="simulator.flag-weak",
    message="{now} {memory}, and nothing orders it with {earlier}: {weak} is an ordinary access, and {strong} is not",
    fix='let both be strong where this is a flag or a counter: .store(value, order="release"), .load(order="acquire"), '
    "or an atomic; else put a barrier between the two, or let another kernel do one of them",
    why="Ordinary accesses may come late, be torn or be left out: a thread that polls the flag waits forever, or sees "
    "it before the data.",
    reference="PTX ISA 8.7.1 (morally strong operations), 8.8 (causality order)",
)
FLAG_BARRIER = Rule(
    id="simulator.flag-barrier",
    message="{now} {memory}, and nothing orders it after {earlier}: {flag} is between them, and {reason}",
    fix="put k.barrier.sync() between the thread with the flag and the other warps of its CTA: after what they write "
    "or read and before its release, and after its acquire and before what they do next{proxy}",
    why="A release publishes what its own thread did, and what that has waited for: not what other warps still do.",
    reference="PTX ISA 8.8 (causality order), 8.7 (release and acquire patterns)",
)
SCOPE = Rule(
    id="simulator.scope",
    message="{now} {memory}, and nothing orders it after {earlier}: a scope of one of them leaves the other out",
    fix='take a scope with all threads that access this memory: scope="cluster", or scope="gpu"',
    why=(
        "Atomics are atomic, and other strong accesses are strong, only among the threads of their "
        "scopes: for other threads, changes may be lost, come late, or never come."
    ),
    reference="PTX ISA 8.6 (scope), 8.7.1 (morally strong operations)",
)
NO_FLAG = Rule(
    id="simulator.flag-missing",
    message="{now} {memory}, and nothing orders it after {earlier}, in another CTA",
    fix="hand it over by a flag in global memory: k.barrier.sync() after what the first CTA does, "
    'flag.store(1, order="release") by one of its threads, and flag.load(order="acquire") until it is 1 by the one '
    "that goes on{proxy}; or do it in another kernel",
    why=("The hardware runs CTAs in any order, and only CTAs of a cluster have a barrier: sometimes the data is old."),
    reference="PTX ISA 8.8 (causality order), 8.6 (Proxies)",
)
NON_COHERENT = Rule(
    id="simulator.non-coherent",
    message="{now} {memory} by a non-coherent load, and the kernel has written there: {earlier}",
    fix="declare the pointer without const=True, so that its loads are coherent; or write to other memory",
    why="No write reaches the non-coherent cache while the kernel runs: what is read is old or new.",
    reference="PTX ISA 9.7.9 (ld.global.nc)",
)
READ_BEFORE_WAIT = Rule(
    id="proxy.read-before-wait",
    message="{now} {memory}, and nothing orders it with {earlier}",
    fix="wait for the mbarrier or the group that the copy completes, {whose}",
    why="The copy may not have come: what is read is what was there before.",
    reference=_PROXIES,
)
WRITTEN_TWICE = Rule(
    id="simulator.write-race",
    message="{now} {memory}, and nothing orders it with {earlier}",
    fix="let each of the two write bytes of its own; or wait for the first (its mbarrier, or its group), then put a "
    "barrier before the second",
    why="An asynchronous write may complete at any time: either value may remain.",
    reference=_PROXIES,
)
ASYNC_COPY_READ = Rule(
    id="async-copy.read-before-wait",
    message="{now} {memory}, and nothing orders it with {earlier}",
    fix="wait for the group (cp.async.wait_group), then put a barrier before other threads read",
    why="The copy may not have come: what is read is what was there before.",
    reference="PTX ISA 9.7.9.25.3 (cp.async)",
)
REFILL = Rule(
    id="proxy.refill-in-flight",
    message="{now} {memory}, and nothing orders it after {earlier}",
    fix="{meet}wait until every reader has given the buffer back before the next copy is issued",
    why="The copy overwrites what is still read.",
    reference=_PROXIES,
)
WRITE_IN_FLIGHT = Rule(
    id="proxy.write-in-flight",
    message="{now} {memory}, and nothing orders it after {earlier}",
    fix="wait first: wait_group of a bulk store, wait_group.read where its source alone matters; wait_group or the "
    "mbarrier of a multiplication",
    why="The operation reads its source later than it was issued, and gets what is written here.",
    reference=_PROXIES,
)
MISSING_FENCE = Rule(
    id="proxy.missing-fence",
    message="{now} {memory} through the async proxy, and no fence.proxy.async comes after {earlier} and before it",
    fix="put fence.proxy.async between the writes and the {between} before the operation: {call}",
    why=(
        "The async proxy is not ordered with generic writes that no proxy fence publishes: sometimes it "
        "reads old bytes, or a late write destroys what it wrote."
    ),
    reference=_PROXIES,
)
NOT_COMMITTED = Rule(
    id="proxy.store-not-committed",
    message="{thread} ends with {operation} in a bulk group that it never committed",
    fix="commit the group and wait for it: cp.async.bulk.commit_group, then wait_group",
    why="No wait covers the operation: the CTA's shared memory may be given away before it is read.",
    reference="PTX ISA 9.7.9.27.2.1 (cp.async.bulk.commit_group)",
)
NOT_WAITED = Rule(
    id="proxy.store-not-waited",
    message="{thread} ends while {operation} may still read its shared memory",
    fix="wait before the end: cp.async.bulk.wait_group.read 0",
    why="The CTA's shared memory may be given away before it is read.",
    reference="PTX ISA 9.7.9.27.2.2 (cp.async.bulk.wait_group)",
)
FILL_LEFT = Rule(
    id="dry-run.fill-left",
    message="{operation} fills shared memory of CTA {cta}, which ends without a wait for that",
    fix="wait for its mbarrier in some warp before the kernel ends, or leave the copy out",
    why="The memory may belong to the next CTA when the copy lands. Nothing traps.",
    reference="PTX ISA 9.7.9.25.4.1 (cp.async.bulk)",
)
EXIT_BEFORE_ACCESS = Rule(
    id="cluster.exit-before-access",
    message="{operation} {does} the shared memory of CTA {cta}, {reason}",
    fix="let no CTA of a cluster end before its peers are done with its memory: a barrier of the cluster at the end",
    why="Memory of a CTA that has ended is free, or belongs to another kernel.",
    reference="PTX ISA 5.1.8 (shared state space), 9.7.13.3 (barrier.cluster)",
)
NOT_STARTED = Rule(
    id="cluster.access-before-start",
    message="{operation} {does} the shared memory of CTA {cta}, {reason}",
    fix="put a barrier of the cluster before the first access: k.cluster.sync()",
    why="The other CTA may not have started: what is there is not its memory yet.",
    reference="PTX ISA 5.1.8 (shared state space), 9.7.13.3 (barrier.cluster)",
)
EXIT_BEFORE_PEERS = Rule(
    id="cluster.exit-before-peers",
    message="{operation} {does} the shared memory of CTA {cta}, {reason}",
    fix="let each CTA wait for the last arrivals of its peers: ring.finish() in the producer's thread, or {other}",
    why="Memory of a CTA that has ended is free, or belongs to another kernel: a late arrival faults.",
    reference="PTX ISA 5.1.8 (shared state space), 9.7.13.3 (barrier.cluster)",
)
NOT_READY = Rule(
    id="mbarrier.not-ready",
    message="{thread} uses {place}, and nothing orders that after the initialisation at {made}",
    fix="put a barrier between the initialisation and the first use: k.mbarrier.ready(), or k.cluster.sync() for peers",
    why="A warp that comes early finds no mbarrier there: what it does is lost, or it waits forever.",
    reference="PTX ISA 9.7.13.15.9 (mbarrier.init)",
)
ORDER = frozenset(
    {
        MISSING_WARP_SYNC,
        MISSING_BARRIER,
        OVERWRITTEN_EARLY,
        RELAXED_BARRIER,
        RACE,
        READ_BEFORE_WAIT,
        WRITTEN_TWICE,
        ASYNC_COPY_READ,
        REFILL,
        WRITE_IN_FLIGHT,
    }
)
"""The rules that two unordered accesses break."""
