"""What a rule of your own is made of: `nvb.Rule` with an analysis, which looks at the `Flow` of a finished kernel.

`nvb.kernel(..., rules=(RULE,))` applies it to one kernel, `nvb.verify(machine, rules=(RULE,))` to any machine form.
What it finds is reported as what nvbackend finds: with the rule's id, severity and texts, at the line of the
instruction.
"""

from __future__ import annotations

from nvbackend.diagnostics import Rule, Severity
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.flow.view import Flow
from nvbackend.isel.machine.function import (
    Access,
    MachineBlock,
    MemoryObject,
    MemoryTouch,
    MemoryUse,
    RegisterBlock,
    Touch,
)
from nvbackend.isel.verify.own_rules import Finding

__all__ = [
    "Access",
    "Finding",
    "Flow",
    "MachineBlock",
    "MemoryObject",
    "MemoryTouch",
    "MemoryUse",
    "RegisterBlock",
    "Rule",
    "Severity",
    "Site",
    "Touch",
]
