"""The rules of clusters: their barrier, ranks in them, and what a CTA owes its peers before it ends."""

from __future__ import annotations

from nvbackend.diagnostics import Rule, Severity

PTX_BARRIER = "PTX ISA 9.7.13 (barrier.cluster)"

ARRIVED_TWICE = Rule(
    id="cluster.arrived-twice",
    message="this arrives at the cluster barrier while the arrival of {earlier} has not been waited for on some path",
    fix="put k.cluster.wait() between the two, or take one of them out",
    why="Two arrivals of a thread without a wait between them are undefined: the barrier completes too early.",
    reference=PTX_BARRIER,
)
WAIT_ALONE = Rule(
    id="cluster.wait-alone",
    message="this waits at the cluster barrier, and on some path nothing arrives before it",
    fix="put k.cluster.arrive() before it on every path, or use k.cluster.sync()",
    why="The wait is for an arrival that this thread never made: it is undefined, or does not end.",
    reference=PTX_BARRIER,
)
ARRIVE_ALONE = Rule(
    id="cluster.arrive-alone",
    message="this arrives at the cluster barrier, and on some path the kernel ends without a wait for it",
    fix="put k.cluster.wait() after it, or take the arrival out",
    why="The arrival orders nothing by itself: the thread continues before its peers are there.",
    reference=PTX_BARRIER,
    severity=Severity.WARNING,
)
EXIT_BEFORE_PEERS = Rule(
    id="cluster.exit-before-peers",
    message="CTAs of the cluster signal {barrier} of one another, and a CTA may end before the last signal has come",
    fix="wait for them before the end: ring.finish() in the producer's thread, or k.cluster.sync() in all threads",
    why="Shared memory of a CTA that has ended is gone: a late access faults, or hits another kernel's.",
    reference="PTX ISA 5.1.7 (shared memory of a cluster); CUDA Programming Guide, distributed shared memory",
)
ACCESS_EARLY = Rule(
    id="cluster.access-before-start",
    message="{instruction} accesses the shared memory of another CTA, and on some path nothing before it waits for it",
    fix="put k.cluster.sync() before the first access",
    why="The other CTA may not have started: what is there is not its memory yet, or not what it writes first.",
    reference="CUDA Programming Guide, distributed shared memory; PTX ISA 5.1.7 (shared memory of a cluster)",
)
ACCESS_LATE = Rule(
    id="cluster.exit-before-access",
    message="{instruction} accesses the shared memory of another CTA, and on some path the kernel ends with no barrier "
    "of the cluster after it",
    fix="put k.cluster.sync() after the last access",
    why="Shared memory of a CTA that has ended is gone: a late access faults, or hits another kernel's.",
    reference="CUDA Programming Guide, distributed shared memory; PTX ISA 5.1.7 (shared memory of a cluster)",
)
MISSING_BARRIER = Rule(
    id="cluster.missing-barrier",
    message="{reader} reads {memory}, which {writer} writes in another CTA, and no barrier of the cluster orders the "
    "two: byte {byte} in the CTA of rank {owner}",
    fix="{fix}",
    why="k.barrier.sync() orders the threads of one CTA alone: the other CTA may be ahead, or not there yet. "
    "Nothing traps.",
    reference="PTX ISA 9.7.13 (barrier.cluster), 8 (memory consistency model: data races)",
)
RANK = Rule(
    id="cluster.rank",
    message="a cluster of {cluster} CTA(s) has no rank {rank}",
    fix="use {legal}",
    why="The address is that of no CTA: the access faults, or ends in this CTA's own memory.",
    reference="PTX ISA 9.7.9 (mapa)",
)
NO_PEER = Rule(
    id="cluster.no-peer",
    message="{call} is about another CTA of the cluster, and the kernel is launched in clusters of {cluster}",
    fix="declare the cluster where the kernel is made: cluster={instead}",
    why="The CTA does not exist: the address is this CTA's own or invalid, and no peer answers.",
    reference="PTX ISA 9.7.9 (mapa), 10 (cluster_ctarank)",
)
NOT_SHARED = Rule(
    id="cluster.not-shared",
    message="{call} maps {given}, which is not an address of shared memory",
    fix="pass an address of shared memory, such as k.shared(...); global memory is the same in all CTAs, so use its "
    "address as it is",
    why="Only shared memory exists once per CTA: mapa turns any other address into one that faults, or into another's.",
    reference="PTX ISA 9.7.9 (mapa)",
)
SCOPE = Rule(
    id="cluster.scope",
    message="a barrier has no scope {given!r}",
    fix='use "cta" or "cluster"',
    why="PTX has no instruction for it.",
    reference=PTX_BARRIER,
)
