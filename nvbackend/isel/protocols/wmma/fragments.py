"""Wmma on the machine form: strides and addresses of loads and stores, and which fragment goes into which operand.

The call checks the same, by the same rules; instructions that were emitted one by one are checked here alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.intrinsics.fragments.wmma import ACCUMULATORS, FRAGMENTS, MULTIPLICANDS, Shape, contiguous
from nvbackend.intrinsics.mma import wmma
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.operands.wmma import address_violations, described, misplaced, stride_violations
from nvbackend.isel.target.target import Target


@dataclass(frozen=True, slots=True)
class Held:
    """What a block of registers holds, an accumulator in no layout, and where it was put there."""

    fragment: str
    shape: Shape
    element: ElementType
    layout: str | None
    location: Location | None


def move_faults(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """What is wrong with the stride and the alignment of a wmma.load or wmma.store, by its facts."""
    row = instr.row
    if row is None or row.family != wmma.FAMILY or row.opcode == wmma.MMA:
        return
    axes: dict[str, Any] = dict(row.axes)
    place = (axes["fragment"], axes["shape"], axes["element"])
    if axes["fragment"] not in FRAGMENTS or wmma.kind_of_fragment(*place) is None:
        return
    align, stride = instr.facts.get(facts.ALIGNMENT), instr.facts.get(facts.STRIDE)
    if align is not None:
        yield from address_violations(row.ptx, *place, axes["element"], align, instr.location)
    if stride is not None:
        rows_follow = contiguous(axes["fragment"], axes["shape"], axes["layout"])
        yield from stride_violations(row.ptx, *place, stride, rows_follow, instr.location)


def check_fragments(function: MachineFunction) -> list[Diagnostic]:
    """Every operand of a wmma whose registers another wmma has filled with a fragment of another kind.

    Registers are known by their names, each of which is given once; what ordinary code computes is not looked at.
    """
    moved = [instr for instr in function.instructions() if instr.row is not None and instr.row.family == wmma.FAMILY]
    held = {name: one for instr in moved for name, one in _filled(instr)}
    return [found for instr in moved for found in _misplaced(instr, held)]


def _filled(instr: MachineInstr) -> Iterator[tuple[str, Held]]:
    axes = _axes(instr)
    if instr.opcode == wmma.MMA:
        yield instr.operands.get("d", ""), Held("d", axes["shape"], axes["d"], None, instr.location)
    elif axes["operation"] == "load":
        layout = axes["layout"] if axes["fragment"] in MULTIPLICANDS else None
        name = instr.operands.get("fragment", "")
        yield name, Held(axes["fragment"], axes["shape"], axes["element"], layout, instr.location)


def _misplaced(instr: MachineInstr, held: dict[str, Held]) -> Iterator[Diagnostic]:
    for operand, name, wanted in _taken(instr):
        given = held.get(name)
        if given is None or not name:
            continue
        fits = given.fragment == wanted.fragment or {given.fragment, wanted.fragment} <= set(ACCUMULATORS)
        same = (given.shape, given.element, given.layout) == (wanted.shape, wanted.element, wanted.layout)
        if not (fits and same):
            instruction = "wmma.mma" if instr.opcode == wmma.MMA else "wmma.store"
            yield misplaced(
                instruction, operand, wanted.shape, _text(given), _text(wanted), wanted.location, given.location
            )


def _taken(instr: MachineInstr) -> Iterator[tuple[str, str, Held]]:
    """The operands that are fragments, with the names of their registers and what they must hold."""
    axes = _axes(instr)
    shape = axes["shape"]
    if instr.opcode == wmma.MMA:
        for operand in ("a", "b", "c"):
            wanted = Held(operand, shape, axes[operand], axes.get(f"{operand}_layout"), instr.location)
            yield operand, instr.operands.get(operand, ""), wanted
    elif axes["operation"] == "store":
        wanted = Held(axes["fragment"], shape, axes["element"], None, instr.location)
        yield axes["fragment"], instr.operands.get("fragment", ""), wanted


def _text(one: Held) -> str:
    return described(one.fragment, one.shape, one.element, one.layout)


def _axes(instr: MachineInstr) -> dict[str, Any]:
    return {} if instr.row is None else dict(instr.row.axes)
