"""The calls that order two accesses, as a program writes them."""

from __future__ import annotations

from nvbackend.dry_run.order.naming import line
from nvbackend.dry_run.protocols.fixes.accesses import Accesses
from nvbackend.intrinsics.row.semantics import Completion

WAITS = {
    Completion.MMA_GROUP: "k.wgmma.wait_group({})",
    Completion.BULK_GROUP: "k.tma.wait_group({}reading=True)",
    Completion.COPY_GROUP: "k.cp_async.wait_group({})",
}
COMMITS = {
    Completion.MMA_GROUP: "k.wgmma.commit_group()",
    Completion.BULK_GROUP: "k.tma.commit_group()",
    Completion.COPY_GROUP: "k.cp_async.commit_group()",
}
SYNC, NAMED, OF_CLUSTER = "k.barrier.sync()", "k.barrier.sync(number, threads)", "k.cluster.sync()"
OF_WARP = "k.warp.sync()"


def wait_call(both: Accesses) -> str:
    """The call that waits for the first access, leaving what may be left; with the commit where it has none."""
    kind = both.earlier.instr.semantics.issues
    if kind not in WAITS:
        return "a wait for its completion"
    groups = both.groups_of_first(kind)
    open_ = next((one for one in groups.operations if one.bit >> both.first.event & 1), None)
    if open_ is None:
        return WAITS[kind].format("" if kind is Completion.BULK_GROUP else "0")
    lane = (open_.lanes & -open_.lanes).bit_length() - 1
    left = groups.committed(lane) - open_.group_of(lane) - 1
    leave = str(left) if both.is_own and left > 0 else ""
    if kind is Completion.BULK_GROUP:
        wait = WAITS[kind].format(f"{leave}, " if leave else "")
    else:
        wait = WAITS[kind].format(leave or "0")
    return wait if left >= 0 else f"{COMMITS[kind]} after {line(open_.instr)}, and {wait}"


def sync_call(both: Accesses) -> str:
    """The barrier of all threads that may make the accesses."""
    return SYNC if both.first.cta == both.second.cta else OF_CLUSTER
