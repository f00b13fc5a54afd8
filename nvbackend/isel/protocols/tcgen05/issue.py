"""How many threads start an asynchronous operation of tcgen05."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.target.target import Target

ONE_THREAD = Rule(
    id="tcgen05.one-thread",
    message="{instruction} is executed by {threads} threads, and each of them starts the same operation",
    fix="let one thread issue it, and commit it: with k.one_thread(): ...",
    why="Each thread that executes it starts one of its own: a product is added to the accumulator as many times.",
    reference="PTX ISA 9.7.16.5 (issue granularity: a single thread)",
)


def check_issue(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """tcgen05.one-thread, where several threads execute an instruction with operands that are the same in all."""
    threads = instr.facts.get(facts.THREADS, 1)
    if instr.semantics.issues is Completion.COMMIT and threads > 1 and instr.facts.get(facts.SAME):
        yield ONE_THREAD.diagnose(
            at=instr.location, instruction=instr.opcode if instr.row is None else instr.row.ptx, threads=threads
        )
