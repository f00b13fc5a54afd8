"""Packed words and registers of machine instructions that were built elsewhere, and the seed's block-scaled atoms."""

from __future__ import annotations

from dataclasses import replace

from nvbackend import MachineFunction, MachineInstr, e2m1, e4m3, f16, f32, ue4m3, ue8m0, verify
from nvbackend.diagnostics import caller_location
from nvbackend.intrinsics.copy import matrix_move, tma_tensor
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.words.tcgen05_control import CONTROL, control_words
from nvbackend.tileiras import block_scaled_atom
from tests.rules.example import program
from tests.rules.setup import BLACKWELL, HOPPER


@program("tcgen05.control-word")
def word_of_a_pair_of_ctas():
    row = tcgen05.mma("f16")
    words = {**control_words(row), CONTROL: 0b10}  # breaks
    words = control_words(row)  # keeps
    function = MachineFunction("k", BLACKWELL)
    function.block("entry").instructions.append(MachineInstr(row.opcode, row, words=words, location=caller_location()))
    return verify(function)


@program("tcgen05.no-control-word")
def instruction_without_its_collector_word():
    row = tcgen05.mma("f16")
    words = {CONTROL: control_words(row)[CONTROL]}  # breaks
    words = control_words(row)  # keeps
    function = MachineFunction("k", BLACKWELL)
    function.block("entry").instructions.append(MachineInstr(row.opcode, row, words=words, location=caller_location()))
    return verify(function)


@program("machine.row")
def row_with_another_spelling():
    row = tma_tensor.prefetch_tensor(2, "tile")
    row = replace(row, ptx=row.ptx.replace("2d", "3d"))  # breaks
    function = MachineFunction("k", HOPPER)
    function.block("entry").instructions.append(MachineInstr(row.opcode, row, location=caller_location()))
    return verify(function)


@program("machine.registers")
def store_of_two_registers_for_four():
    row = matrix_move.stmatrix(4)
    given = 2  # breaks
    given = 4  # keeps
    function = MachineFunction("k", HOPPER)
    function.block("entry").instructions.append(
        MachineInstr(row.opcode, row, registers={"address": 1, "fragment": given}, location=caller_location())
    )
    return verify(function)


@program("block-scale.accumulator")
def factors_and_halves():
    block_scaled_atom(32, 32, e4m3, e4m3, f16, ue8m0, ue8m0)  # breaks
    block_scaled_atom(32, 32, e4m3, e4m3, f32, ue8m0, ue8m0)  # keeps


@program("block-scale.atom")
def vector_of_another_type():
    block_scaled_atom(32, 16, e4m3, e4m3, f32, ue8m0, ue8m0)  # breaks
    block_scaled_atom(32, 32, e4m3, e4m3, f32, ue8m0, ue8m0)  # keeps


@program("block-scale.scale-types")
def factors_of_two_types():
    block_scaled_atom(64, 16, e2m1, e2m1, f32, ue8m0, ue4m3)  # breaks
    block_scaled_atom(64, 16, e2m1, e2m1, f32, ue4m3, ue4m3)  # keeps
