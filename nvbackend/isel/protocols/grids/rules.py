"""The rules of kernels that begin before the previous ones have ended."""

from __future__ import annotations

from nvbackend.diagnostics import Rule, Severity

_REFERENCE = "PTX ISA 9.7.13.13 (griddepcontrol)"

ACCESSED_EARLY = Rule(
    id="griddepcontrol.early-conflict",
    message="{name} is {early} {before} griddepcontrol.wait, and {late} after it, in {line}: the launch before this "
    "one may still do that",
    fix='put k.griddepcontrol("wait") before this line, in these threads or before a barrier with them',
    why="A kernel that waits begins while the one before it runs, which may be this kernel: old, new or mixed numbers.",
    reference=_REFERENCE,
)
READ_EARLY = Rule(
    id="griddepcontrol.early-access",
    message="{name} is {early} {before} griddepcontrol.wait: a kernel before this one may still {use} it",
    fix='put k.griddepcontrol("wait") before this line, in these threads or before a barrier with them; or, if no '
    "kernel before it does that, as with weights, say so: with "
    'k.allow("griddepcontrol.early-access", reason="weights")',
    why="A kernel that waits begins while the ones before it run: what they write is old, new or mixed until then.",
    reference=_REFERENCE,
    severity=Severity.WARNING,
)
