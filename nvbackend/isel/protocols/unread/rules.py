"""The rules of work for nothing. The kernel does what it says, so these are warnings."""

from __future__ import annotations

from nvbackend.diagnostics import Rule, Severity

UNREAD = Rule(
    id="mma.unread",
    message="nothing in the kernel reads {name}, the result of {instruction}",
    fix="{fix}",
    why="The multiplies are for nothing: what the kernel writes is computed without them.",
    reference="PTX ISA 9.7.14 (mma), 9.7.15 (wgmma), 9.7.16 (tcgen05)",
    severity=Severity.WARNING,
)
EMPTY_GROUP = Rule(
    id="async.empty-group",
    message="{commit} closes a group with nothing in it: {before}",
    fix="put the {operations} that it is for before it, in its threads, or take the commit and its wait out",
    why="A wait for an empty group waits for nothing: what it is meant to wait for is in no group.",
    reference="PTX ISA 9.7.9 (cp.async.commit_group, cp.async.bulk.commit_group), 9.7.15.7 (wgmma.commit_group)",
    severity=Severity.WARNING,
)
UNUSED_PARAMETER = Rule(
    id="kernel.unused-parameter",
    message="the kernel never uses the {kind} {name}",
    fix="read or write what it points to, or leave the parameter out; a name that is meant to be unused is _{name}",
    why="An output that nothing writes keeps what was in it; an input that nothing reads has no part in the result.",
    reference="docs/guide.md, A first kernel",
    severity=Severity.WARNING,
)
