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
from nvbackend.dry_run.scenario.choose import choose, rounds_of, wanted
from nvbackend.dry_run.seam import Launch, MakeProtocols
from nvbackend.isel.machine.function import MachineFunction

STEPS = 400_000
"""What one run may cost: LLVM instructions, and ten for each recorded instruction."""


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


def check(subject: Subject, make: MakeProtocols) -> list[Diagnostic]:
    """What runs of the kernel with parameters of its own choice show."""
    program = compiled(subject)
    if program.opaque:
        return []
    rounds = rounds_of(subject.function, program)
    scalars = choose(rounds, subject.scalars, wanted(subject.function, program))
    found, _ = run(subject, program, make, scalars)
    return found
