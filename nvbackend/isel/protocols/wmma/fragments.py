"""Wmma on the machine form: strides and addresses of loads and stores, and which fragment goes into which operand.

The call checks the same, by the same rules; instructions that were emitted one by one are checked here alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.intrinsics.fragments.wmma import ACCUMULATORS
from nvbackend.intrinsics.mma.families import WMMA_MMA
from nvbackend.intrinsics.row.row import Role
from nvbackend.intrinsics.row.semantics import Matrix, OpaqueFragment
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.operands.wmma import address_violations, described, misplaced, stride_violations
from nvbackend.isel.target.target import Target

Held = tuple[OpaqueFragment, Location | None]
"""What a block of registers holds, and where it was put there."""


def move_faults(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """What is wrong with the stride and the alignment of a wmma.load or wmma.store, by its facts."""
    row = instr.row
    if row is None or not row.semantics.fragments:
        return
    fragment = row.semantics.fragments[0]
    place = (fragment.which, fragment.shape, fragment.element)
    for matrix in (use.extent for use in row.semantics.memory if isinstance(use.extent, Matrix)):
        align, stride = instr.facts.get(facts.ALIGNMENT), instr.facts.get(facts.STRIDE)
        if align is not None:
            yield from address_violations(row.ptx, *place, fragment.element, align, instr.location)
        if stride is not None:
            yield from stride_violations(row.ptx, *place, stride, matrix.line, instr.location)


def check_fragments(function: MachineFunction) -> list[Diagnostic]:
    """Every operand of a wmma whose registers another wmma has filled with a fragment of another kind.

    Registers are known by their names, each of which is given once; what ordinary code computes is not looked at.
    """
    moved = [instr for instr in function.instructions() if instr.semantics.fragments]
    held = {
        instr.operands.get(fragment.name, ""): (fragment, instr.location)
        for instr in moved
        for fragment in _of(instr, Role.OUTPUT)
    }
    return [fault for instr in moved for fault in _misplaced(instr, held)]


def _of(instr: MachineInstr, role: Role) -> Iterator[OpaqueFragment]:
    """The fragments that the instruction takes or gives."""
    assert instr.row is not None
    return (fragment for fragment in instr.semantics.fragments if instr.row.operand(fragment.name).role is role)


def _misplaced(instr: MachineInstr, held: Mapping[str, Held]) -> Iterator[Diagnostic]:
    multiplies = instr.semantics.multiplies
    for wanted in _of(instr, Role.INPUT):
        name = instr.operands.get(wanted.name, "")
        if not name or name not in held:
            continue
        actual, place = held[name]
        fits = actual.which == wanted.which or {actual.which, wanted.which} <= set(ACCUMULATORS)
        same = (actual.shape, actual.element, actual.layout) == (wanted.shape, wanted.element, wanted.layout)
        if not (fits and same):
            instruction = WMMA_MMA if multiplies else "wmma.store"
            operand, text = wanted.which, _text(wanted)
            yield misplaced(instruction, operand, wanted.shape, _text(actual), text, instr.location, place)


def _text(fragment: OpaqueFragment) -> str:
    return described(fragment.which, fragment.shape, fragment.element, fragment.layout)
