"""Whether a kernel must be launched in clusters, if only of one CTA."""

from __future__ import annotations

from nvbackend.isel.machine.function import MachineFunction


def needs_cluster(machine: MachineFunction) -> bool:
    """Whether it has an instruction that stops a kernel which is launched without a cluster."""
    return any(instr.semantics.in_cluster for instr in machine.instructions())
