"""The rules of the WGMMA protocol: what may go wrong between an asynchronous mma and the code around it."""

from __future__ import annotations

from nvbackend.diagnostics import Rule, Severity

PTX_WGMMA = "PTX ISA 9.7.15.7"

READ_IN_FLIGHT = Rule(
    id="wgmma.read-in-flight",
    message="{registers} {verb} read while {mma} may still be {doing}: {reason}",
    fix="{fix}",
    why="The registers hold old, partial or new values, depending on timing. Nothing traps.",
    reference=f"{PTX_WGMMA}.3 (wgmma.wait_group)",
)
WRITE_IN_FLIGHT = Rule(
    id="wgmma.write-in-flight",
    message="{registers} {verb} written while {mma} may still be {doing}: {reason}",
    fix="{fix}",
    why="The mma uses or overwrites the new value, depending on timing. Nothing traps.",
    reference=f"{PTX_WGMMA}.3 (wgmma.wait_group)",
)
MISSING_FENCE = Rule(
    id="wgmma.missing-fence",
    message="wgmma.mma_async uses {registers} with no wgmma.fence before it on some path: {reason}",
    fix="{fix}",
    why="Without the fence the tensor core may see registers from before the access, or overwrite them too early.",
    reference=f"{PTX_WGMMA}.1 (wgmma.fence)",
)
SHAPE_CHANGE = Rule(
    id="wgmma.shape-change",
    message="wgmma.mma_async accumulates into {names} as {shape}, and {mma} did as {earlier}, "
    "with no wgmma.fence between them",
    fix="put k.wgmma.fence() before this line: without it the order holds only between mma of one accumulator shape",
    why="Mma of different accumulator shapes are not ordered among themselves, so both may work on the registers.",
    reference=f"{PTX_WGMMA}.1 (wgmma.fence)",
)
NEEDLESS_FENCE = Rule(
    id="wgmma.needless-fence",
    message="this wgmma.fence is between two mma of one group, {second} and one before it, that accumulate into "
    "{names} in one shape: they are ordered without it",
    fix="remove it; one fence at the start of the region is enough",
    why="The fence makes the tensor core wait for nothing, between every two instructions of a chain.",
    reference=f"{PTX_WGMMA}.1 (wgmma.fence)",
    severity=Severity.WARNING,
)
MISSING_COMMIT = Rule(
    id="wgmma.missing-commit",
    message="{what}, but no wgmma.commit_group has closed the group of {mma}, which {uses}",
    fix="put k.wgmma.commit_group() after {mma}, before {where}",
    why="A wait sees committed groups only: it returns at once, and the mma still runs.",
    reference=f"{PTX_WGMMA}.2 (wgmma.commit_group)",
)
WAIT_LEAVES_GROUP = Rule(
    id="wgmma.wait-leaves-group",
    message="this wait_group {pending} is to hand back {registers}, but it leaves group {group}, which {uses}, "
    "in flight: {arithmetic}",
    fix="use k.wgmma.wait_group({enough}, ...) here, or in_flight={enough} of k.wgmma.group",
    why="The number says how many groups may stay in flight, not how many to wait for; the result is not complete yet.",
    reference=f"{PTX_WGMMA}.3 (wgmma.wait_group)",
)
MISSING_WAIT = Rule(
    id="wgmma.missing-wait",
    message="the kernel ends here while group {group}, which {uses}, may be in flight: {reason}",
    fix="put k.wgmma.wait_group(0) before the end of the kernel",
    why="The result of the group is lost, and its shared memory may be given to the next CTA while it is read.",
    reference=f"{PTX_WGMMA}.3 (wgmma.wait_group)",
)
