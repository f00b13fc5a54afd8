"""A finished kernel as what is run, and one run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from llvmlite import ir

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.anchors import Anchor
from nvbackend.dry_run.machine.choices import USUAL, Guessed, Policy
from nvbackend.dry_run.machine.fiber import Contradicted
from nvbackend.dry_run.machine.machine import Machine, OverBudget
from nvbackend.dry_run.machine.threads import own
from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.program.compile import compile_program
from nvbackend.dry_run.seam import Launch, MakeProtocols
from nvbackend.intrinsics.row.types import Scalar
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.signature import LaunchBounds

STEPS = 200_000
"""What one run may cost, in LLVM instructions: the machine says what it charges for others."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A finished kernel: its LLVM function, its machine form, and how they belong together.

    `scalars` are its parameters that are integers, by name; `registers` those of a thread at launch, `loops` the lines
    of its loops and the names that they were made with, by their headers; `assumed` is the line of the first
    `k.assume`.
    """

    function: ir.Function
    machine: MachineFunction
    anchors: Mapping[str, Sequence[Anchor]]
    bounds: LaunchBounds
    scalars: Mapping[str, Scalar]
    registers: int | None = None
    loops: Mapping[str, tuple[Location | None, str]] = field(default_factory=dict)
    assumed: Location | None = None


def compiled(subject: Subject) -> Program:
    """The program, for any parameters."""
    return compile_program(
        subject.function, subject.machine, subject.anchors, subject.bounds.dynamic_shared_bytes, own, subject.loops
    )


def run(
    program: Program,
    launch: Launch,
    make: MakeProtocols,
    scalars: Mapping[str, int],
    policy: Policy = USUAL,
) -> tuple[list[Diagnostic], Machine]:
    """One run with the parameters `scalars`: what was found, and the machine after it."""
    protocols = make(launch)
    machine = Machine(program, launch, protocols, scalars, STEPS, policy)
    try:
        machine.run()
    except Contradicted:
        machine.contradicted = True
        return [], machine
    except (OverBudget, Guessed):
        return protocols.finish(whole=False), machine
    return protocols.finish(), machine
