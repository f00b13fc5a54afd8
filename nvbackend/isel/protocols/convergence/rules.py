"""The rules of convergence: who executes an instruction that groups of threads execute together."""

from __future__ import annotations

from nvbackend.diagnostics import Rule, Severity

WARPGROUP_DIVERGENT = Rule(
    id="convergence.warpgroup",
    message="{instruction} is executed by the {threads} threads of a warpgroup together, and {branch} parts them",
    fix="let whole warpgroups come here: choose by k.warpgroup_id(), or pass the condition through k.uniform(...) and "
    "compute it from what the warpgroup has in common",
    why="The threads that come alone read registers of threads that are elsewhere: undefined, and nothing traps.",
    reference="PTX ISA 9.7.15 (wgmma: .sync.aligned), 9.7.19 (setmaxnreg)",
)
WARP_DIVERGENT = Rule(
    id="convergence.warp",
    message="{instruction} is executed by the {threads} threads of a warp together, and {branch} parts them",
    fix="let whole warps come here: choose by k.warp_id(), or put the instruction before the branch and use its "
    "result inside",
    why="The instruction waits for lanes that never come, or its result is undefined.",
    reference="PTX ISA 9.7 (.sync, .aligned)",
)
BARRIER_DIVERGENT = Rule(
    id="barrier.divergent",
    message="{instruction} waits for all threads of the CTA, and {branch} lets only some of them come here",
    fix="put it where all threads come, or count those that do: k.barrier.sync(number, threads)",
    why="The threads that came wait forever.",
    reference="PTX ISA 9.7.13.1 (barrier: all threads of the CTA)",
)
BARRIER_SKIPPED = Rule(
    id="barrier.skipped",
    message="{instruction} waits for all threads of the CTA, and {branch} ends the kernel for some of them before",
    fix="let these threads stay until the last barrier, and skip the work in between; or count those that are left: "
    "k.barrier.sync(number, threads)",
    why="The barrier may wait for threads that will not come.",
    reference="PTX ISA 9.7.13.1 (barrier: all threads of the CTA)",
)
BY_CLUSTER = "choose by k.cluster.id(), which is the same in all CTAs of a cluster; or "
"""How the fixes begin where a condition differs between the CTAs of a cluster."""
CLUSTER_DIVERGENT = Rule(
    id="cluster.divergent",
    message="{instruction} is for all threads of the cluster, and {branch} lets only some of them come here",
    fix="{choose}put it where all threads of all CTAs of the cluster come; for some of them use an mbarrier",
    why="The barrier waits for threads that come to another one, or to none: forever.",
    reference="PTX ISA 9.7.13 (barrier.cluster)",
)
CLUSTER_SKIPPED = Rule(
    id="cluster.skipped",
    message="{instruction} does not wait for the threads for which {branch} ends the kernel before",
    fix="{choose}let these threads come here too, so that no CTA of the cluster ends before the others have done with "
    "it",
    why="The barrier waits for threads that have not exited: shared memory of a CTA that has ended may be accessed.",
    reference="PTX ISA 9.7.13 (barrier.cluster: non-exited threads)",
    severity=Severity.WARNING,
)
REGISTERS_ORDER = Rule(
    id="setmaxnreg.order",
    message="setmaxnreg.{action} to {count} registers where the thread has {present}: {action} goes {direction}",
    fix="use setmaxnreg.{other} here, or a count {relation} {present}",
    why="Behaviour is undefined: registers in use are given away, or the wait for registers never ends.",
    reference="PTX ISA 9.7.19 (setmaxnreg)",
)
REGISTERS_LARGEST = Rule(
    id="setmaxnreg.largest",
    message="setmaxnreg.dec to {count} registers, and no setmaxnreg.inc of the kernel goes above {largest}",
    fix="let the setmaxnreg.inc ask for {count} or more, or use {largest} or fewer here",
    why="A thread needs no more registers than the largest setmaxnreg.inc says: ptxas refuses to keep more (C7406).",
    reference="ptxas 13.5 (C7406)",
)
REGISTERS_WHOLE = Rule(
    id="setmaxnreg.warpgroup",
    message="{instruction} is executed by whole warpgroups of {warpgroup} threads, and all of the kernel's {threads} "
    "come here",
    fix="use threads={wanted}, or let only the warpgroups that are whole come here",
    why="The last warps would change their registers without the rest of their warpgroup: behaviour is undefined.",
    reference="PTX ISA 9.7.19 (setmaxnreg)",
)
REGISTERS_POOL = Rule(
    id="setmaxnreg.pool",
    message="setmaxnreg.inc to {count} registers a thread in {who}: a CTA of {warpgroups} warpgroup(s) can have "
    "{most} there",
    fix="use {most} or less, or take registers from other warpgroups first and let only some ask for more",
    why="setmaxnreg.inc waits until the CTA's pool has enough registers, which would be never.",
    reference="PTX ISA 9.7.19 (setmaxnreg); CUDA C++ Programming Guide, compute capabilities",
)
