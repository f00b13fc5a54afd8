"""The rule of whose operations a commit or a wait is for."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

OTHER_THREADS = Rule(
    id="async.other-threads",
    message="{completion} is executed by {others}, and {issue} by {issuers}: it is for what its own threads issued",
    fix="execute {completion} in the threads that execute {issue}, under the same condition",
    why="A commit or a wait counts only for the threads that execute it: what others issued is not closed, or not "
    "waited for, and is read, overwritten or freed while the operation runs.",
    reference="PTX ISA 9.7.9 (cp.async.commit_group, cp.async.wait_group, cp.async.bulk.commit_group, "
    "cp.async.bulk.wait_group: of the executing thread), 9.7.15.7 (wgmma.commit_group, wgmma.wait_group: of the "
    "executing threads), 9.7.16.12.1 (tcgen05.commit: initiated by the executing thread)",
)
