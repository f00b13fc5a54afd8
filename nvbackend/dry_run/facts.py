"""What all steps of one instruction have in common, looked up once."""

from __future__ import annotations

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import Effect, RegisterClass, Row
from nvbackend.intrinsics.row.semantics import BARRIER, Completion, MbarrierUse, Scope
from nvbackend.isel.machine.function import MachineInstr

_STRIDE = "stride"
"""The operand of a matrix between whose lines it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Of an instruction: its `operands` by name, and what it does with an mbarrier."""

    name: str
    operands: frozenset[str]
    has_barrier: bool
    """It has an mbarrier as its operand."""
    arrives: bool
    expects: bool
    completes: bool
    recounts: bool
    waits: bool
    """It waits for a phase, or asks whether it is over."""
    polls: bool
    is_relaxed: bool
    """It orders no memory access."""
    commits: bool
    """It arrives when what tcgen05 has issued so far is done."""
    of_pairs: bool
    """It completes on one mbarrier for both CTAs of a pair."""
    sends: bool
    """It reads shared memory of its CTA while it goes on."""
    of_tensors: bool
    """It accesses tensor memory."""
    together: bool
    """The warps of a warpgroup execute it as one."""
    in_common: tuple[str, ...]
    """The operands that all threads that execute it as one have in common."""


def facts_of(instr: MachineInstr) -> Facts:
    """The facts of an instruction."""
    row, said, use = instr.row, instr.semantics, instr.semantics.mbarrier
    operands = frozenset([one.name for one in row.operands]) if row is not None else frozenset[str]()
    memory = [(one.writes, row.operand(one.name).register) for one in said.memory] if row is not None else []
    return Facts(
        instr.opcode if row is None else row.opcode,
        operands,
        BARRIER in operands,
        arrives=use is not None and MbarrierUse.ARRIVE in use,
        expects=use is not None and MbarrierUse.EXPECT in use,
        completes=use is not None and MbarrierUse.COMPLETE in use,
        recounts=use is not None and MbarrierUse.RECOUNT in use,
        waits=use is not None and bool(use & (MbarrierUse.WAIT | MbarrierUse.POLL)),
        polls=use is not None and MbarrierUse.POLL in use,
        is_relaxed=row is not None and ".relaxed" in row.ptx,
        commits=said.tracks is Completion.COMMIT,
        of_pairs=row is not None and row.axes.get("cta_group") == 2,
        sends=any(not writes and register is RegisterClass.SHARED for writes, register in memory),
        of_tensors=any(register is RegisterClass.TMEM for _, register in memory),
        together=said.together is Scope.WARPGROUP,
        in_common=() if row is None else in_common(row),
    )


def in_common(row: Row) -> tuple[str, ...]:
    """The operands that a whole warp or warpgroup gives as one: where a matrix begins, and how far its lines are apart;
    the number of a barrier, and of its threads.

    An address that each thread gives for itself is none of them.
    """
    said = row.semantics
    if Effect.CONVERGENT not in row.effects or said.together < Scope.WARP:
        return ()
    one = [operand for operand in said.memory if operand.lanes is None]
    strides = [_STRIDE] if row.has_operand(_STRIDE) else []
    counts = [operand.name for operand in row.inputs if operand.legal is not None] if said.barrier is not None else []
    return tuple(dict.fromkeys([*(each.name for each in one), *strides, *counts]))
