"""The runs of one kernel: with which numbers, and what they found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run.anchors import Anchor
from nvbackend.dry_run.machine.machine import Machine, OverBudget
from nvbackend.dry_run.machine.threads import own
from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.program.compile import compile_program
from nvbackend.dry_run.program.needed import is_of_protocols
from nvbackend.dry_run.scenario.choose import SCALES, Wanted, choose, rounds_of
from nvbackend.dry_run.seam import Launch, MakeProtocols
from nvbackend.isel.machine.function import MachineFunction

STEPS = 400_000
"""What one run may cost: LLVM instructions, and ten for each recorded instruction."""

ENOUGH = 2000
"""No further run is begun that would take more recorded instructions than these."""
GROWTH = 3
"""How much longer a run is than the one before, about."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A finished kernel: its LLVM function, its machine form, and how they belong together.

    `scalars` are its parameters that are numbers, by name, with their bits; `registers` those of a thread at launch.
    """

    function: ir.Function
    machine: MachineFunction
    anchors: Mapping[str, Sequence[Anchor]]
    dynamic_bytes: int
    threads: int
    cluster: int
    scalars: Mapping[str, int]
    registers: int | None = None


def compiled(subject: Subject) -> Program:
    """The program that is run, whatever the numbers."""
    return compile_program(subject.function, subject.machine, subject.anchors, subject.dynamic_bytes, own)


def run(
    subject: Subject,
    program: Program,
    make: MakeProtocols,
    scalars: Mapping[str, int],
    *,
    steps: int = STEPS,
    latest_first: bool = False,
) -> tuple[list[Diagnostic], Machine]:
    """One run with the parameters `scalars`: what was found, and the machine after it."""
    launch = Launch(
        subject.machine.target,
        subject.threads,
        subject.cluster,
        subject.cluster,
        program.shared,
        subject.registers,
    )
    protocols = make(launch)
    machine = Machine(program, launch, protocols, scalars, steps, latest_first=latest_first)
    try:
        machine.run()
    except OverBudget:
        return [], machine
    return ([] if machine.guessed or (machine.parted and not machine.deadlocked) else protocols.finish()), machine


def check(subject: Subject, make: MakeProtocols, sizes: Sequence[Mapping[str, int]] = ()) -> list[Diagnostic]:
    """What runs of the kernel show, with parameters of each of `sizes`, or of its own choice."""
    if not any(is_of_protocols(one) for one in subject.machine.instructions()):
        return []
    program = compiled(subject)
    if program.opaque:
        return []
    rounds, wanted = rounds_of(subject.function, program), Wanted(subject.function, subject.machine, program)
    spent = 0
    for scale in SCALES:
        chosen = choose(rounds, subject.scalars, wanted.of(scale))
        for given in sizes or ({},):
            found, machine = run(subject, program, make, {**chosen, **given}, latest_first=spent > 0)
            if found:
                return found
            spent += machine.steps
        if sizes or GROWTH * spent > ENOUGH:
            break
    return []
