"""What a dry run reports. An id that the verifier also has names the same mistake, seen in a run."""

from __future__ import annotations

from nvbackend.diagnostics import Rule, Severity

_MODEL = "PTX ISA 8 (Memory Consistency Model)"
_PROXIES = "PTX ISA 8.6 (Proxies)"
_MBARRIER = "PTX ISA 9.7.13.15 (mbarrier)"
_BARRIER = "PTX ISA 9.7.13.1 (barrier)"
_CLUSTER = "PTX ISA 5.1.7 (shared memory of a cluster), 9.7.13 (barrier.cluster)"
_TENSOR = "PTX ISA 9.7.16.6 (tcgen05 memory consistency)"

UNJUDGED = Rule(
    id="dry-run.no-sizes",
    message="the dry run judges nothing here: {reason}",
    fix="name parameters that the kernel is for, in build(check=[{form}]) or as examples=[{form}] in its decorator",
    why="Mistakes that show only when the kernel runs are not found.",
    reference="docs/checks.md",
    severity=Severity.WARNING,
)
EACH_ASKS = Rule(
    id="cluster.each-asks",
    message="several CTAs of a cluster call try_cancel for themselves, and each adds its own rank to the answer",
    fix="let one CTA of the cluster ask for all: k.launch_control.try_cancel(..., multicast=True), with "
    "k.mbarrier.arrive(..., expect_tx=16) in each; or let each CTA do the work of the whole cluster that it gets",
    why="Each gets another cluster, and does the part of its rank alone: the other parts are never done.",
    reference="PTX ISA 9.7.13 (clusterlaunchcontrol.try_cancel)",
    severity=Severity.WARNING,
)
READ_BEFORE_WAIT = Rule(
    id="proxy.read-before-wait",
    message="{now}{second} reads {memory} while {first} may still be writing it: {reason}",
    fix="{fix}",
    why="The bytes may not have come yet: what is read depends on timing. Nothing traps.",
    reference=_PROXIES,
)
COPY_READ_BEFORE_WAIT = Rule(
    id="async-copy.read-before-wait",
    message="{now}{second} reads {memory} while {first} may still be writing it: {reason}",
    fix="{fix}",
    why="The bytes may not have come yet: what is read depends on timing. Nothing traps.",
    reference="PTX ISA 9.7.9.25.3 (cp.async.wait_group)",
)
REFILL = Rule(
    id="proxy.refill",
    message="{now}{second} fills {memory} while {first} may still {access} it: {reason}",
    fix="{fix}",
    why="The copy overwrites what is still read or written: old, new or mixed bytes. Nothing traps.",
    reference=_PROXIES,
)
REFILL_IN_FLIGHT = Rule(
    id="proxy.refill-in-flight",
    message="{now}{second} fills {memory} while {first} may still read it: {reason}",
    fix="{fix}",
    why="The operation reads its source later than it was issued: old, new or mixed bytes. Nothing traps.",
    reference=_PROXIES,
)
WRITE_IN_FLIGHT = Rule(
    id="proxy.write-in-flight",
    message="{now}{second} overwrites {memory} while {first} may still {access} it: {reason}",
    fix="{fix}",
    why="The operation reads old, new or mixed bytes, depending on timing. Nothing traps.",
    reference=_PROXIES,
)
MISSING_FENCE = Rule(
    id="proxy.missing-fence",
    message="{now}{second} {does} {memory} through the async proxy, and no fence.proxy.async follows {first}, which "
    "writes it",
    fix="{fix}",
    why="A barrier of threads does not order the two proxies: the write may come after what should follow it.",
    reference=_PROXIES,
)
MISSING_BARRIER = Rule(
    id="shared.missing-barrier",
    message="{now}{second} reads {memory} while {first} may still be writing it: {reason}",
    fix="{fix}",
    why="Threads do not run in step: what was there before may be read. Nothing traps.",
    reference=_MODEL,
)
OVERWRITTEN_EARLY = Rule(
    id="shared.overwritten-early",
    message="{now}{second} overwrites {memory} while {first} may still read it: {reason}",
    fix="{fix}",
    why="A slower thread reads what was written for later. Nothing traps.",
    reference=_MODEL,
)
RELAXED = Rule(
    id="dry-run.relaxed-arrival",
    message="{now}{second} accesses {memory} while {first} may still {access} it: the arrival between them is relaxed",
    fix='arrive with "release" in place of "relaxed" among the qualifiers of {line}',
    why="A relaxed arrival completes the phase and orders no access of memory before it. Nothing traps.",
    reference=f"{_MBARRIER}: .relaxed; {_MODEL}",
)
TWO_WRITERS = Rule(
    id="dry-run.two-writers",
    message="{now}{second} and {first} write {memory}, and either may be last: {reason}",
    fix="{fix}",
    why="Which of them is last depends on timing. Nothing traps.",
    reference=_MODEL,
)
SWIZZLE = Rule(
    id="descriptor.swizzle",
    message="{now}{second} reads {memory} by a descriptor with {read}, and {first} filled it with {filled}",
    fix="read the tile by the layout that it was written by: the same swizzle in the tensor map and the descriptor, "
    "with base offset 0 for what TMA has filled",
    why="Rows of 16 bytes are read from each other's places: wrong results, no fault.",
    reference="PTX ISA 5.5.7 (swizzling modes), 9.7.15.5.1.2 (shared memory layout)",
)
STRADDLES = Rule(
    id="descriptor.one-tile",
    message="{now}{second} reads bytes {start} to {end} of shared memory, parts of two tiles: {one} completes on "
    "{first}, {other} on {last}",
    fix="correct the address of {line}: the copies begin {apart} bytes apart",
    why="Half of what is read belongs to another stage, which is filled again meanwhile: wrong results, no fault.",
    reference="PTX ISA 9.7.15.5.1 (matrix descriptor), 9.7.16.4.1 (shared memory descriptor)",
)
MISSING_WARP_SYNC = Rule(
    id="dry-run.missing-warp-sync",
    message="{now}{second} of warp {warp} {does} {memory}, which {first} in another lane {did}, and the lanes have not "
    "met since",
    fix="let the lanes of the warp meet {between}: k.warp.sync()",
    why="The hardware may execute the lanes of a warp at different times: what is read is sometimes old.",
    reference="PTX ISA 9.7.13.2 (bar.warp.sync)",
)
UNWRITTEN = Rule(
    id="dry-run.unwritten",
    message="{now}{second} reads {memory}, which nothing has written: shared address {byte:#x} of CTA {cta}",
    fix="fill {memory} before {line}, or read only what is filled",
    why="Shared memory holds what an earlier kernel left there.",
    reference="PTX ISA 5.1.7 (shared state space)",
)
BEYOND = Rule(
    id="shared.bounds",
    message="{now}{second} accesses {place}",
    fix="keep the index of {line} inside of the allocation, or allocate more",
    why="The access faults, or hits what lies beside the allocation.",
    reference="PTX ISA 5.1.7 (shared state space)",
)
PARITY = Rule(
    id="mbarrier.parity-counter",
    message="{now}warp {warp} waits for {wanted} of {barrier}: {reason}",
    fix="{fix}",
    why="A wait for a phase that is over orders nothing: what it guards is sometimes accessed too early.",
    reference=f"{_MBARRIER}: mbarrier.try_wait, phase parity",
)
PARITY_VALUE = Rule(
    id="mbarrier.parity",
    message="{now}{instruction} of warp {warp} waits for parity {wanted} of {barrier}",
    fix="pass the phase & 1 here, which is {right}",
    why="A parity is 0 or 1; the behaviour for another number is undefined.",
    reference=_MBARRIER,
)
UNINITIALISED = Rule(
    id="mbarrier.uninitialised",
    message="{now}{instruction} of warp {warp} uses {memory} as an mbarrier, and nothing has initialised it",
    fix="keep the index of {line} inside of the ring, or initialise this mbarrier too: k.mbarrier.init",
    why="The hardware takes whatever the 8 bytes hold for counts: the thread waits forever, or not at all.",
    reference=_MBARRIER,
)
AFTER_INVAL = Rule(
    id="mbarrier.after-inval",
    message="{now}{instruction} of warp {warp} uses {barrier}, which warp {other} invalidates in {line}: {reason}",
    fix="{fix}",
    why="The memory is not a barrier any more: the thread waits forever, or not at all.",
    reference=f"{_MBARRIER}: mbarrier.inval",
)
NOT_READY = Rule(
    id="mbarrier.not-ready",
    message="{now}{instruction} of warp {warp} in CTA {cta} uses {barrier}, which may not be initialised yet",
    fix="put k.mbarrier.ready() after {line}, the initialisation: a fence, and a barrier of all who use it",
    why="Another thread, another CTA or the async proxy may access the barrier before it is initialised.",
    reference=_MBARRIER,
)
OVERWRITTEN = Rule(
    id="mbarrier.overwritten",
    message="{now}{instruction} of warp {warp} writes to {barrier}, which is an mbarrier",
    fix="put the data elsewhere, or end the mbarrier's life first, with k.mbarrier.inval and a barrier of the CTA",
    why="The counts of the phase are lost: threads wait forever, or go on too early.",
    reference=_MBARRIER,
)
DOUBLE_INIT = Rule(
    id="mbarrier.double-init",
    message="{now}warp {warp} initialises {barrier}, {reason}",
    fix="initialise it once, in one thread: put k.mbarrier.init under `with k.one_thread()`, outside of loops, or use "
    "k.mbarrier.array",
    why="Initialising a barrier in use is undefined: arrivals and waits of both lives mix.",
    reference=_MBARRIER,
)
ARRIVALS = Rule(
    id="mbarrier.arrivals",
    message="{now}{barrier} counts {count} a phase, and {reason}",
    fix="{fix}",
    why="A phase completes too late, never, or several times while others wait for one: a hang, or stale data.",
    reference=_MBARRIER,
)
UNWAITED = Rule(
    id="dry-run.unwaited-phase",
    message="{now}warp {warp} arrives on {barrier}, and phase {last} may not be over: {waited}",
    fix="{fix}",
    why=("If one thread arrives twice in a phase, the phase completes without another thread, which is still at work."),
    reference=_MBARRIER,
)
OVERRUN = Rule(
    id="dry-run.overrun",
    message="{now}{reason}",
    fix="{fix}",
    why=(
        "The threads that complete the phases do not wait for the threads that wait for them: these miss "
        "a phase, and hang or go on early."
    ),
    reference=_MBARRIER,
)
BYTES = Rule(
    id="mbarrier.wrong-bytes",
    message="{now}{expected} bytes are announced in phase {phase} of {barrier}, and its copies bring {brought}",
    fix="{fix}",
    why="Too many, and the phase never completes; too few, and it completes before the bytes are there.",
    reference=_MBARRIER,
)
ANNOUNCED_LATE = Rule(
    id="mbarrier.late-bytes",
    message="{now}warp {warp} announces {bytes} bytes in phase {phase} of {barrier}, and no arrival of the phase waits "
    "for that: the phase may be over before",
    fix="announce them before the thread arrives: put {late} before {line}, or do both in one call: "
    "k.mbarrier.arrive(..., expect_tx=...)",
    why="The phase completes without the copies, so a wait for it returns before their bytes have come. The bytes "
    "count in the next phase.",
    reference=_MBARRIER,
)
WRONG_BARRIER = Rule(
    id="mbarrier.wrong-barrier",
    message="{now}warp {warp} announces {bytes} bytes on {barrier}, and the copy of {copy}, which brings as many in "
    "that round, completes on {other}",
    fix="announce them in {line} on the mbarrier on which the copy completes, which is {other} here; or let the copy "
    "complete on {barrier}",
    why="The one phase waits for bytes that never come, the other one may complete before its bytes have come.",
    reference=_MBARRIER,
)
DEADLOCK = Rule(
    id="mbarrier.deadlock",
    message="{now}{who} waits forever for {wanted} of {barrier}: {reason}",
    fix="{fix}",
    why="Threads wait for one another forever: the kernel hangs.",
    reference=_MBARRIER,
)
BARRIER_CROWD = Rule(
    id="barrier.crowd",
    message="{now}warp {warp} comes to barrier {barrier} of {count} threads, and may count in its last phase: {reason}",
    fix="give each group of threads a barrier of its own number, count all threads that come in one phase, and let who "
    "arrives wait for the answer before it arrives again",
    why="It opens when enough threads have come, whichever these are: some go on too early, the others never.",
    reference=_BARRIER,
)
BARRIER_COUNTS = Rule(
    id="dry-run.barrier-counts",
    message="{now}warp {warp} counts {count} threads at barrier {barrier}, where {first} counts {others} in its phase",
    fix="count {others} threads here too, or let {first} count {count}",
    why="The behaviour is undefined: the barrier opens for one count or the other.",
    reference=_BARRIER,
)
BARRIER_HANGS = Rule(
    id="dry-run.barrier-hangs",
    message="{now}barrier {barrier} waits for {count} threads, and only {arrived} come: {reason}",
    fix="{fix}",
    why="The warps that came wait forever: the kernel hangs.",
    reference=_BARRIER,
)
BARRIER_PARTED = Rule(
    id="dry-run.barrier-rounds",
    message="{now}{instruction} of warp {warp} waits for all threads of the CTA, and {early} came here too early, "
    "with warp {other} at {line}, and ended",
    fix="let all warps come to {line} equally often: make as many rounds of its loop in each warp, and skip the work "
    "of those that are too many; or count the threads that come: k.barrier.sync(number, threads)",
    why="Barriers of different rounds meet: warps go on before the others have done what the barrier is for.",
    reference="PTX ISA 9.7.13.1 (barrier: all threads of the CTA)",
)
CLUSTER_HANGS = Rule(
    id="cluster.divergent",
    message="{now}{who} waits forever at the barrier of the cluster: {reason}",
    fix="let all threads of all CTAs come to k.cluster.sync() the same number of times",
    why="The barrier waits for threads that come to another one, or to none: forever.",
    reference=_CLUSTER,
)
POOL = Rule(
    id="setmaxnreg.pool",
    message="{now}setmaxnreg.inc to {count} in warpgroup {group} waits forever: a thread needs {needed} more, and the "
    "CTA's pool has {there}",
    fix="let other warpgroups give {needed} registers a thread back first, with k.setmaxnreg.dec, or ask for fewer",
    why="setmaxnreg.inc waits until the CTA's pool has enough registers, which would be never.",
    reference="PTX ISA 9.7.19 (setmaxnreg)",
)
ACCESS_EARLY = Rule(
    id="cluster.access-before-start",
    message="{now}{instruction} of CTA {cta} accesses the shared memory of CTA {peer}, which may not have started",
    fix="put k.cluster.sync() before {line}, the first access",
    why="The other CTA may not have started: what is there is not its memory yet, or not what it writes first.",
    reference=_CLUSTER,
)
ACCESS_LATE = Rule(
    id="cluster.exit-before-access",
    message="{now}{instruction} of CTA {cta} accesses the shared memory of CTA {peer}, which may have ended",
    fix="put k.cluster.sync() at the end, after {line}, so that CTA {peer} ends after it",
    why="Shared memory of a CTA that has ended is gone: a late access faults, or hits another kernel's.",
    reference=_CLUSTER,
)
STORE_NOT_COMMITTED = Rule(
    id="proxy.store-not-committed",
    message="warp {warp} ends with {first} in a bulk group that it never committed",
    fix="put k.tma.commit_group() after {line}, and then k.tma.wait_group(reading=True), in its thread",
    why="The shared memory may be given to the next CTA while it is read; a wait sees committed groups only.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.commit_group)",
)
STORE_NOT_WAITED = Rule(
    id="proxy.store-not-waited",
    message="warp {warp} ends while {first} may still read its shared memory",
    fix="put k.tma.wait_group(reading=True) after {line}, in its thread, before the kernel ends",
    why=("The shared memory may be given to the next CTA while it is read, so the stored tile is sometimes wrong."),
    reference="PTX ISA 9.7.9 (cp.async.bulk.wait_group)",
)
FILL_LEFT = Rule(
    id="dry-run.fill-left",
    message="{now}{instruction} of warp {warp} fills shared memory of CTA {cta} for {barrier}, and the CTA ends "
    "without a wait for that",
    fix="fill as many stages as are drained, or wait for the last ones before the kernel ends",
    why="The memory may belong to the next CTA when the copy lands. Nothing traps.",
    reference="PTX ISA 9.7.9 (cp.async.bulk, mbarrier-based completion)",
)
TENSOR_READ = Rule(
    id="tcgen05.missing-wait",
    message="{now}{second} reads columns of tensor memory from {column} on while {first} may still be writing them: "
    "{reason}",
    fix="{fix}",
    why="A tcgen05 operation continues after its issue: the columns are read half done.",
    reference=_TENSOR,
)
TENSOR_WRITE = Rule(
    id="tcgen05.write-in-flight",
    message="{now}{second} overwrites columns of tensor memory from {column} on while {first} may still {access} them: "
    "{reason}",
    fix="{fix}",
    why="Old, new or mixed columns are read, depending on timing. Nothing traps.",
    reference=_TENSOR,
)
TENSOR_FENCE_BEFORE = Rule(
    id="tcgen05.missing-fence-before",
    message="{first} {access} columns of tensor memory from {column} on, which {second} uses next: no "
    "tcgen05.fence::before_thread_sync is between the wait for it and the barrier that lets the other go on",
    fix="put k.tcgen05.fence_before_thread_sync() after the wait for {line}, before warp {warp} arrives at the barrier",
    why="Barriers and arrivals do not order tensor memory: old, new or mixed columns are read. Nothing traps.",
    reference="PTX ISA 9.7.16.11.1 (tcgen05.fence), 9.7.16.6.4 (canonical synchronisation patterns)",
)
TENSOR_FENCE_AFTER = Rule(
    id="tcgen05.missing-fence-after",
    message="{now}{second} uses columns of tensor memory from {column} on, which {first} {access}, after a wait with "
    "no tcgen05.fence::after_thread_sync between",
    fix="put k.tcgen05.fence_after_thread_sync() between the wait and {line}",
    why="The operation may be moved before the wait, which orders other memory only.",
    reference="PTX ISA 9.7.16.11.1 (tcgen05.fence), 9.7.16.6.4 (canonical synchronisation patterns)",
)
TENSOR_FREED = Rule(
    id="tcgen05.missing-barrier",
    message="{now}{second} gives tensor memory back while {first} may still {access} it: {reason}",
    fix="{fix}",
    why="The columns may belong to another CTA while they are accessed: wrong numbers, and nothing traps.",
    reference=_TENSOR,
)
SUM_LOST = Rule(
    id="wgmma.lost-product",
    message="{now}{second} starts a new sum in accumulator {name}, and nothing reads what {first} left there",
    fix="clear {name} once, before the first product of a tile: put its clear() before the loop over the steps, and "
    "leave accumulate=False out",
    why="Of the products before, nothing is left: the sum is that of the last ones alone. Nothing traps.",
    reference="PTX ISA 9.7.15.5.2 (wgmma.mma_async: scale-d)",
)
TENSOR_LOST = Rule(
    id="tcgen05.lost-product",
    message="{now}{second} starts a new sum in columns of tensor memory from {column} on, and nothing has read what "
    "{first} left there",
    fix="let {line} add to them: accumulate=True, or False in the first product of a tile alone (accumulate=step > 0)",
    why="Of the products before, nothing is left: the sum is that of the last ones alone. Nothing traps.",
    reference="PTX ISA 9.7.16.10.9 (tcgen05.mma: enable-input-d)",
)
TENSOR_UNWRITTEN = Rule(
    id="dry-run.tensor-unwritten",
    message="{now}{second} reads lane {lane}, column {column} of tensor memory, which nothing has written",
    fix="write these columns before {line}, or read only those that are written",
    why="Tensor memory holds what another kernel left there.",
    reference=_TENSOR,
)
TENSOR_OVERLAP = Rule(
    id="dry-run.tensor-overlap",
    message="{now}{instruction} of warp {warp} writes D to columns {first} to {last} of tensor memory, and reads "
    "{operand} from columns {read} to {end}",
    fix="give D and {operand} columns that do not overlap",
    why="Parts of what is read are overwritten before they have been multiplied: wrong results, no fault.",
    reference="PTX ISA 9.7.16.10.9 (tcgen05.mma)",
)
TENSOR_BOUNDS = Rule(
    id="dry-run.tensor-bounds",
    message="{now}{instruction} of warp {warp} accesses columns {first} to {last} of tensor memory; CTA {cta} has "
    "allocated {ranges}",
    fix="allocate as many columns as are used, or keep the column inside of the allocation",
    why="The columns may belong to another CTA, whose accumulators are read or overwritten. Nothing traps.",
    reference="PTX ISA 9.7.16.7 (tcgen05.alloc)",
)
BOX_START = Rule(
    id="tma.start",
    message="{now}{instruction} of warp {warp} starts its box at element {start} of the innermost dimension, {given} "
    "byte(s) after a multiple of {step} bytes",
    fix="count the innermost coordinate in elements of the tensor: that of tile number i is i * {width} where the box "
    "is {width} elements wide",
    why="The kernel stops with an illegal instruction, whether the box is loaded, prefetched, stored or reduced.",
    reference="measured on an H200 (docs/divergences.md); PTX ISA 9.7.9 (cp.async.bulk.tensor) does not say so",
)
COPY_UNREAD = Rule(
    id="copy.unread",
    message="{instruction} fills {memory}, and nothing in the kernel reads {part}",
    fix="{fix}",
    why="The products leave out what is not read, or read something else in its place.",
    reference="PTX ISA 9.7.15.5 (wgmma: matrices in shared memory), 9.7.16.10 (tcgen05.mma)",
    severity=Severity.WARNING,
)
NOT_IN_COMMON = Rule(
    id="convergence.operand",
    message="{now}all {threads} threads of a {group} have to give {instruction} the same {operand}, and {other} gives "
    "another than {one}",
    fix="compute {operand} from what the {group} has in common, and not from {index}: the instruction itself finds the "
    "part of each thread",
    why="It takes the value of some thread, and PTX does not say of which: wrong numbers, and nothing traps.",
    reference="PTX ISA 9.7.15.5 (wgmma: matrix descriptors), 9.7.16.8 (tcgen05.ld, .st: taddr), 9.7.14.4 (wmma: p)",
)
TENSOR_LANES = Rule(
    id="dry-run.tensor-lanes",
    message="{now}{instruction} of warp {warp} accesses lane {lane} of tensor memory; it has lanes {low} to {high}",
    fix="begin at lane {low} in this warp: add 32 * (k.warp_id() % 4) to the lane of the address",
    why="A warp reaches only the quarter of the lanes of its rank in the warpgroup: the behaviour is undefined.",
    reference="PTX ISA 9.7.16.2.3 (data movement shapes, access restrictions)",
)
