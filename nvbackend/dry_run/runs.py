"""The runs of one kernel: their parameters, and what they found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run.anchors import Anchor
from nvbackend.dry_run.machine.choices import Guessed
from nvbackend.dry_run.machine.machine import Machine, OverBudget
from nvbackend.dry_run.machine.threads import own
from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.program.compile import compile_program
from nvbackend.dry_run.program.needed import is_of_protocols
from nvbackend.dry_run.scenario.choose import SCALES, Scale, Wanted, choose, rounds_of
from nvbackend.dry_run.scenario.promises import Promises
from nvbackend.dry_run.seam import Exceeded, Launch, MakeProtocols
from nvbackend.isel.machine.function import MachineFunction, MachineInstr

STEPS = 200_000
"""What one run may cost: LLVM instructions, and ten for each recorded instruction."""

ENOUGH = 2000
"""No further run starts that would take more recorded instructions."""
GROWTH = 3
"""Roughly how much longer a run is than the one before."""


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
    """The program, for any parameters."""
    return compile_program(subject.function, subject.machine, subject.anchors, subject.dynamic_bytes, own)


def run(
    program: Program,
    launch: Launch,
    make: MakeProtocols,
    scalars: Mapping[str, int],
    *,
    latest_first: bool = False,
    first_way: bool = True,
) -> tuple[list[Diagnostic], Machine]:
    """One run with the parameters `scalars`: what was found, and the machine after it."""
    protocols = make(launch)
    machine = Machine(program, launch, protocols, scalars, STEPS, latest_first=latest_first, first_way=first_way)
    try:
        machine.run()
    except (OverBudget, Guessed):
        return protocols.finish(whole=False), machine
    return protocols.finish(), machine


def check(subject: Subject, make: MakeProtocols, sizes: Sequence[Mapping[str, int]] = ()) -> list[Diagnostic]:
    """What runs of the kernel show, with parameters of each of `sizes`, or of its own choice.

    The second run has other rounds, another order of warps, and takes the other ways where data decides.
    """
    if not any(is_of_protocols(one) for one in subject.machine.instructions()):
        return []
    program = compiled(subject)
    if program.opaque:
        return []
    promises = Promises(subject.function, subject.anchors, program.computed, subject.scalars)
    wanted, spent = Wanted(subject.function, subject.machine, program), 0
    for scale in SCALES:
        launch = _launch(subject, program, scale)
        chosen = choose(rounds_of(subject.function, program, launch), subject.scalars, wanted.of(scale))
        for given in sizes or ({},):
            again = spent > 0
            scalars = {**chosen, **given}
            within = replace(launch, promised=_promised(promises, given))
            found, machine = _run_within(program, within, make, scalars, latest_first=again, first_way=not again)
            if found:
                return found
            spent += machine.steps
        if sizes or GROWTH * spent > ENOUGH:
            break
    return []


def _launch(subject: Subject, program: Program, scale: Scale) -> Launch:
    target, cluster = subject.machine.target, subject.cluster
    return Launch(
        target, subject.threads, cluster, cluster, program.shared, subject.registers, scale.grid, program.places
    )


def _promised(promises: Promises, given: Mapping[str, int]) -> Callable[[MachineInstr, str], frozenset[str]]:
    """The parameters that decide how far an index goes, but for those that the author gave."""
    return lambda instr, operand: promises.of(instr, operand).difference(given)


def _run_within(
    program: Program,
    launch: Launch,
    make: MakeProtocols,
    scalars: Mapping[str, int],
    *,
    latest_first: bool,
    first_way: bool,
) -> tuple[list[Diagnostic], Machine]:
    """A run with parameters as `scalars`, or less where these are larger than the kernel's arrays admit."""
    less = dict(scalars)
    while True:
        try:
            return run(program, launch, make, less, latest_first=latest_first, first_way=first_way)
        except Exceeded as error:
            smaller = {name: less[name] >> 1 for name in error.names if less[name] > 1}
            if not smaller:
                none = replace(launch, promised=lambda _instr, _operand: frozenset())
                return run(program, none, make, less, latest_first=latest_first, first_way=first_way)
            less |= smaller
