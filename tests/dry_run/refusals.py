"""The rules that refuse a small kernel when a dry run looks at it."""

from __future__ import annotations

from typing import Any

import nvbackend as nvb


def refusals(kernel: nvb.KernelDefinition, **constants: Any) -> list[str]:
    """The ids of the rules by which `build(check=True)` refuses the kernel, warnings too."""
    try:
        found = kernel.build(**constants, check=True).diagnostics
    except nvb.DiagnosticError as error:
        found = tuple(error.diagnostics)
    return [one.rule_id for one in found]
