"""What can be wrong with PTX that somebody else's compiler printed. Each holds on every path on which it can matter."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

OPCODE = Rule(
    id="lint.opcode",
    message="PTX has no {kind} {word}, as in {opcode}{places}{question}",
    fix="correct {word}",
    why="ptxas refuses the text.",
    reference="PTX ISA 9.7 (Instructions), 5.2 (Types)",
)
IN_FLIGHT = Rule(
    id="lint.register-in-flight",
    message="{registers} {verb} {accessed} while {issuer} may still be using {them}: {reason}",
    fix="{fix}",
    why="The registers hold old, partial or new values, depending on timing. Nothing traps.",
    reference="PTX ISA 9.7.15.7.3 (wgmma.wait_group), 9.7.16.8.5 (tcgen05.wait)",
)
WGMMA_FENCE = Rule(
    id="lint.wgmma-fence",
    message="{instruction} is executed with no wgmma.fence before it: {reason}",
    fix="put wgmma.fence.sync.aligned before it, after the last ordinary access to its registers",
    why="Without the fence the tensor core may see registers from before the access, or overwrite them too early.",
    reference="PTX ISA 9.7.15.7.1 (wgmma.fence)",
)
UNCOMMITTED = Rule(
    id="lint.uncommitted",
    message="{where} is reached, and no {commit} has closed the group of {issuer}",
    fix="put {commit} after {issuer}, before {where}",
    why="A wait sees committed groups only: it returns at once, and the operation still runs.",
    reference="PTX ISA 9.7.15.7.2 (wgmma.commit_group), 9.7.9.27.2.1 (cp.async.bulk.commit_group)",
)
UNWAITED = Rule(
    id="lint.unwaited",
    message="the kernel ends while the group of {issuer} may be in flight: {reason}",
    fix="put {wait} 0 before the end of the kernel",
    why="Its result is lost, or its shared memory is given to the next CTA while it is read.",
    reference="PTX ISA 9.7.15.7.3 (wgmma.wait_group), 9.7.9.27.2.2 (cp.async.bulk.wait_group)",
)
RELEASED = Rule(
    id="lint.stage-in-flight",
    message="{release} lets shared memory be filled again while {issuer} may still read it: {reason}",
    fix="{fix}",
    why="The copy and the tensor core race for the memory. Nothing traps.",
    reference="PTX ISA 9.7.15.7.3 (wgmma.wait_group)",
)
PROXY_FENCE = Rule(
    id="lint.proxy-fence",
    message="{reader} reads shared memory through the async proxy that ordinary code writes at {writer}, "
    "with no fence.proxy.async between them on any path",
    fix="put fence.proxy.async.shared::cta after the writes, before the barrier that the reader waits at",
    why="The async proxy may read what was there before the writes. Nothing traps.",
    reference="PTX ISA 9.7.13.4 (membar, fence: fence.proxy.async), 8 (Memory Consistency Model: proxies)",
)
NEVER_COMMITTED = Rule(
    id="lint.never-committed",
    message="no {commit} comes after this {instruction} on any path",
    fix="put {commit} after it",
    why="No wait covers what is not committed: the bytes are read before they arrive.",
    reference="PTX ISA 9.7.9.25.3.2 (cp.async.commit_group), 9.7.16.12.1 (tcgen05.commit)",
)
NEVER_WAITED = Rule(
    id="lint.never-waited",
    message="no {wait} comes after this {instruction} on any path",
    fix="put {wait} and a barrier before the memory is read",
    why="The bytes may be read before they arrive. Nothing traps.",
    reference="PTX ISA 9.7.9.25.3.3 (cp.async.wait_group), 9.7.16.8.5 (tcgen05.wait)",
)
MBARRIER_INIT = Rule(
    id="lint.mbarrier-init",
    message="{instruction} waits at the mbarrier at {place}, which no mbarrier.init of this kernel initialises",
    fix="put mbarrier.init of it with the number of arrivals at the start of the kernel, and a barrier after it",
    why="Its counts are whatever was in shared memory: the wait returns at once, or never.",
    reference="PTX ISA 9.7.13.15.9 (mbarrier.init)",
)
COPY_IN_FLIGHT = Rule(
    id="lint.copy-in-flight",
    message="{instruction} reads shared memory that only {issuer} fills{round}: {reason}",
    fix="{fix}",
    why="The bytes may not have arrived: depending on timing, the values are old. Nothing traps.",
    reference="PTX ISA 9.7.9.25.3.3 (cp.async.wait_group)",
)
WRITTEN_IN_FLIGHT = Rule(
    id="lint.written-in-flight",
    message="{instruction} writes shared memory that {issuer} may still be {use}{round}: no {wait} that completes "
    "its group is between the two",
    fix="put {wait} {pending} before this line, and a barrier where other threads write",
    why="Depending on timing, the operation reads the old bytes or the new ones, or its own stay. Nothing traps.",
    reference="PTX ISA 9.7.9.25.3.3 (cp.async.wait_group), 9.7.9.27.2.2 (cp.async.bulk.wait_group), "
    "9.7.15.7.3 (wgmma.wait_group)",
)
TMEM_UNWRITTEN = Rule(
    id="lint.tmem-write-in-flight",
    message="{instruction} may read tensor memory that {issuer} is still writing: no tcgen05.wait::st is between "
    "the two",
    fix="put tcgen05.wait::st.sync.aligned after the writes, before the barrier that the issuer of this line waits at",
    why="The tensor core may read what was there before. Nothing traps.",
    reference="PTX ISA 9.7.16.8.5 (tcgen05.wait)",
)
MBARRIER_STUCK = Rule(
    id="lint.mbarrier-stuck",
    message="{instruction} waits for phase {phase} of the mbarrier at {place}{round}, and the arrivals that may "
    "come before this wait do not complete it on any path",
    fix="put the arrival that completes phase {phase} (mbarrier.arrive, tcgen05.commit) before the wait",
    why="No thread passes the wait: the kernel hangs. Phases are counted from 0; each takes as many arrivals as "
    "mbarrier.init says.",
    reference="PTX ISA 9.7.13.15.16 (mbarrier.test_wait, mbarrier.try_wait)",
)
