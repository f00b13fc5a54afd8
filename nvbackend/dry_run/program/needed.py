"""The slice: which LLVM instructions control flow and recorded instructions need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from llvmlite import ir

from nvbackend.dry_run.anchors import Anchor
from nvbackend.dry_run.facts import in_common
from nvbackend.intrinsics.row.row import GUARD, RegisterClass, Row
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.machine.facts import UNIT
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.machine.pseudo import ADDRESS

SHARED_SPACES = (3, 7)
"""The address spaces of the own CTA's shared memory, and of the cluster's."""


SENT = "values"
"""The operand with what is sent to another CTA."""


def is_sent(row: Row | None) -> bool:
    """Whether it stores values of its thread in shared memory of the cluster, later."""
    return row is not None and row.opcode == "st.async" and row.has_operand(SENT) and row.semantics.mbarrier is not None


def is_of_protocols(instr: MachineInstr) -> bool:
    """Whether the instruction is part of a protocol; others only compute."""
    said = instr.semantics
    if said.exits and instr.row is None:
        return False
    parts = (said.mbarrier, said.barrier, said.fence, said.completion, said.tensor_memory, said.budget)
    return bool(said.memory) or said.atomic or said.together is Scope.WARPGROUP or any(one is not None for one in parts)


def is_assumption(one: ir.Instruction) -> bool:
    """Whether it says what LLVM may assume."""
    return isinstance(one, ir.CallInstr) and getattr(one.callee, "name", "") == "llvm.assume"


def results(anchor: Anchor) -> list[ir.Instruction]:
    """The LLVM values that a recorded instruction gives."""
    row = anchor.instr.row
    names = [] if row is None else [one.name for one in row.outputs]
    return [one for name in names for one in anchor.registers.get(name, ()) if isinstance(one, ir.Instruction)]


def needed(
    function: ir.Function,
    anchors: Mapping[str, Sequence[Anchor]],
    computed: Mapping[ir.Value, Anchor],
    stores: Mapping[ir.Value, Sequence[ir.Instruction]],
) -> set[ir.Value]:
    """The instructions whose values decide about branches, or are operands of recorded instructions.

    `computed` are the recorded instructions that give values, by their results: in place of the LLVM
    instructions that define them. `stores` are what sets each variable.
    """
    roots: list[ir.Value] = []
    others: list[ir.Instruction] = []
    for block in function.blocks:
        for one in block.instructions:
            if one.opname == "store":
                pointer = one.operands[1]
                if _is_shared(pointer):
                    (roots if isinstance(one.operands[0].type, ir.IntType) else others).append(one)
            elif one.opname == "call" and is_assumption(one):
                roots.append(one)
        if block.terminator is not None:
            roots += block.terminator.operands
    for anchor in (one for several in anchors.values() for one in several if is_of_protocols(one.instr)):
        roots += (one for registers in inputs(anchor).values() for one in registers if isinstance(one, ir.Value))
        roots += pointers(anchor)
    found = _closure(roots, stores, computed)
    if others and any(one.opname == "load" and _is_shared(one.operands[0]) and not _is_integer(one) for one in found):
        return _closure([*roots, *others], stores, computed)
    return found


def pointers(anchor: Anchor) -> list[ir.Value]:
    """Where the ordinary access is that a pseudo-instruction records."""
    after = anchor.after
    if anchor.instr.row is not None or after is None:
        return []
    if after.opname == "store":
        return [after.operands[1]]
    return [after.operands[0]] if after.opname in ("load", "atomicrmw", "cmpxchg") else []


def inputs(anchor: Anchor) -> dict[str, Sequence[ir.Value | int]]:
    """The operands that decide what an instruction does, by name: no data, and nothing that lies in global memory.

    What all threads give as one is among them, wherever it lies. Where one operand has several registers, these are
    data or the coordinates of a tile.
    """
    row, of_protocols = anchor.instr.row, is_of_protocols(anchor.instr)
    outputs = {one.name for one in row.outputs} if row is not None else ()
    found = {}
    for name, registers in anchor.registers.items():
        if name in outputs or is_data(registers[0]):
            continue
        if not (of_protocols and row is not None and name != GUARD and _is_silent(anchor.instr, row, name, registers)):
            found[name] = registers
    return found


def _is_silent(instr: MachineInstr, row: Row, name: str, registers: Sequence[ir.Value | int]) -> bool:
    if row.semantics.atomic and name != ADDRESS:
        return True
    if len(registers) > 1 and not (is_sent(row) and name == SENT):
        # several CTAs' boxes may come to one place, and some boxes may start where TMA cannot
        return not row.has_operand("multicast_mask") and UNIT not in instr.facts
    return row.operand(name).register is RegisterClass.GLOBAL and name not in in_common(row)


def is_data(value: ir.Value | int) -> bool:
    """Whether it is neither an integer nor an address."""
    return isinstance(value, ir.Value) and not isinstance(value.type, (ir.IntType, ir.PointerType))


def _is_integer(one: ir.Instruction) -> bool:
    return isinstance(one.type, ir.IntType)


def _is_shared(pointer: ir.Value) -> bool:
    return isinstance(pointer.type, ir.PointerType) and pointer.type.addrspace in SHARED_SPACES


def _closure(
    roots: Iterable[ir.Value], stores: Mapping[ir.Value, Sequence[ir.Instruction]], computed: Mapping[ir.Value, Anchor]
) -> set[ir.Value]:
    found: set[ir.Value] = set()
    waiting = [one for one in roots if isinstance(one, ir.Instruction)]
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found.add(value)
        if value in computed:
            anchor = computed[value]
            given = (*inputs(anchor).values(), anchor.registers.get(ADDRESS, ()))
            waiting += [one for registers in given for one in registers if isinstance(one, ir.Instruction)]
        elif isinstance(value, ir.AllocaInstr):
            waiting += stores.get(value, ())
        elif value.opname == "phi":
            waiting += [one for one, _ in value.incomings if isinstance(one, ir.Instruction)]
        else:
            waiting += [one for one in value.operands if isinstance(one, ir.Instruction)]
    return found
