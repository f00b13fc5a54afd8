"""Products that nothing reads, and commits that nothing comes before.

Of a kernel that writes nothing to global memory nothing is said: it is a part of one, or measures something. The
verifier does not ask for this: what it is given may be a part, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.row import RegisterClass
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.finished import finished, semantics_in
from nvbackend.isel.flow.paths import unreached, without_unreached
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Access, MachineFunction, MachineInstr, RegisterBlock
from nvbackend.isel.machine.naming import with_line
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED
from nvbackend.isel.protocols.unread import rules

_GROUPS = {
    Completion.MMA_GROUP: "products of wgmma",
    Completion.BULK_GROUP: "bulk stores",
    Completion.COPY_GROUP: "copies",
}
"""What a group of each kind is made of."""
_OF_GLOBAL = (RegisterClass.GLOBAL, RegisterClass.GENERIC)


def check_unread(function: MachineFunction) -> list[Diagnostic]:
    """mma.unread for each accumulator of wgmma, and tensor memory; async.empty-group for each kind of group.

    `function` is that of a whole kernel.
    """
    said = semantics_in(function)
    if function.attributes.get(ATTACHED) or not any(each.multiplies or each.commits for each in said):
        return []
    whole = finished(function)
    instructions = [*without_unreached(whole, unreached(whole)).instructions()]
    if any(instr.semantics.unknown for instr in instructions):
        return []
    faults = [*_empty_groups(instructions)]
    if any(each.multiplies for each in said) and writes_results(function):
        faults += [*_of_registers(instructions), *_of_tensor_memory(instructions)]
    return faults


def writes_results(function: MachineFunction) -> bool:
    """Whether anything is written to global memory."""
    plain = (instr for block in function.blocks.values() for _, instr in block.plain)
    return any(use.writes for instr in plain for use in instr.semantics.memory) or any(
        map(_writes_global, function.instructions())
    )


def _writes_global(instr: MachineInstr) -> bool:
    said, row = instr.semantics, instr.row
    is_plain_atomic = said.atomic and not said.memory  # one of shared memory says what it touches
    if is_plain_atomic or said.issues is Completion.BULK_GROUP:
        return True
    return row is not None and any(use.writes and row.operand(use.name).register in _OF_GLOBAL for use in said.memory)


def _of_registers(instructions: list[MachineInstr]) -> Iterator[Diagnostic]:
    """The accumulators of wgmma, each at its first product."""
    first: dict[RegisterBlock, MachineInstr] = {}
    read: set[RegisterBlock] = set()
    for instr in instructions:
        for touch in instr.touches:
            if touch.access is Access.ACCUMULATE:
                first.setdefault(touch.block, instr)
            elif touch.access is Access.MULTIPLY or (touch.access is Access.READ and facts.UNUSED not in instr.facts):
                read.add(touch.block)
    for block, instr in first.items():
        if block not in read:
            name = f"accumulator {block.name}"
            fix = f"store {block.name}, or use its values; or leave its multiplies out"
            yield rules.UNREAD.diagnose(at=instr.location, name=name, instruction=instr.opcode, fix=fix)


def _of_tensor_memory(instructions: list[MachineInstr]) -> Iterator[Diagnostic]:
    """Tensor memory that products write, where no load and no product reads any."""
    products = [instr for instr in instructions if _adds_in_tensor_memory(instr)]
    if products and not any(map(_reads_tensor_memory, instructions)):
        fix = "load it, k.tcgen05.ld and k.tcgen05.wait_ld, and store the values; or leave the multiplies out"
        opcode, at = products[0].opcode, products[0].location
        yield rules.UNREAD.diagnose(at=at, name="tensor memory", instruction=opcode, fix=fix)


def _adds_in_tensor_memory(instr: MachineInstr) -> bool:
    return instr.semantics.multiplies and instr.semantics.issues is Completion.COMMIT


def _reads_tensor_memory(instr: MachineInstr) -> bool:
    row, said = instr.row, instr.semantics
    if said.issues is Completion.LOAD_WAIT:
        return True
    scales = ("scale_a", "scale_b")
    reads = (use.name for use in said.memory if not use.writes and use.name not in scales)
    return row is not None and any(row.operand(name).register is RegisterClass.TMEM for name in reads)


def _empty_groups(instructions: list[MachineInstr]) -> Iterator[Diagnostic]:
    """The first commit of each kind of which the kernel issues nothing at all.

    Groups that are empty in some rounds are usual: waits count groups, and the last rounds copy nothing.
    """
    issued = {instr.semantics.issues for instr in instructions}
    told: set[Completion] = set()
    for instr in instructions:
        kind = instr.semantics.commits
        if kind in _GROUPS and kind not in issued and kind not in told:
            told.add(kind)
            before = f"the kernel has no {_GROUPS[kind]}"
            yield rules.EMPTY_GROUP.diagnose(
                at=instr.location, commit=with_line(instr), before=before, operations=_GROUPS[kind]
            )
