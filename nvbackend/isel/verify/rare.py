"""Checks of what few kernels have: each is imported with the first function that has it."""

from __future__ import annotations

from collections.abc import Iterable

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.semantics import Completion, GridUse, TensorMapUse
from nvbackend.isel.flow.finished import semantics_in
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target


def check_words(instr: MachineInstr, target: Target) -> Iterable[Diagnostic]:
    """What is wrong with the packed words of a `tcgen05.mma`."""
    said = instr.semantics
    if instr.row is None or said.issues is not Completion.COMMIT or not said.multiplies:
        return ()
    from nvbackend.isel.verify.tcgen05_words import word_faults

    return word_faults(instr, target)


def check_moves(instr: MachineInstr, target: Target) -> Iterable[Diagnostic]:
    """What is wrong with a wmma.load or wmma.store."""
    if not instr.semantics.fragments:
        return ()
    from nvbackend.isel.protocols.wmma.fragments import move_faults

    return move_faults(instr, target)


def check_fragments(function: MachineFunction) -> Iterable[Diagnostic]:
    """The fragments of wmma."""
    if not any(said.fragments for said in semantics_in(function)):
        return ()
    from nvbackend.isel.protocols.wmma import fragments

    return fragments.check_fragments(function)


def check_tensor_memory(function: MachineFunction) -> Iterable[Diagnostic]:
    """The protocol of tensor memory."""
    if not any(said.is_of_tensor_memory for said in semantics_in(function)):
        return ()
    from nvbackend.isel.protocols.tmem.protocol import check_tmem_protocol

    return check_tmem_protocol(function)


def check_grids(function: MachineFunction) -> Iterable[Diagnostic]:
    """What comes before griddepcontrol.wait."""
    if not any(said.grids is GridUse.WAIT for said in semantics_in(function)):
        return ()
    from nvbackend.isel.protocols.grids import protocol

    return protocol.check_grids(function)


def check_tensor_maps(function: MachineFunction) -> Iterable[Diagnostic]:
    """Tensor maps that a kernel changes and uses."""
    there = {said.tensor_map for said in semantics_in(function)}
    if TensorMapUse.COPY not in there:
        return ()
    stored = any(facts.MAP in instr.facts for block in function.blocks.values() for _, instr in block.plain)
    if not stored and there.isdisjoint((TensorMapUse.CHANGE, TensorMapUse.PUBLISH)):
        return ()
    from nvbackend.isel.protocols.tensor_maps import protocol

    return protocol.check_tensor_maps(function)
