"""The printed machine form: goldens, and that nothing the form holds is lost in print."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.row.row import Asm, Effect, RegisterClass, Row, immediate, operand, output
from nvbackend.intrinsics.row.semantics import NOTHING
from nvbackend.intrinsics.row.types import f16, f32
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.words.smem_descriptor import SmemDescriptor, SwizzleMode
from nvbackend.isel.machine import pseudo
from nvbackend.isel.machine.function import (
    Access,
    MachineFunction,
    MachineInstr,
    MemoryObject,
    MemoryTouch,
    MemoryUse,
    RegisterBlock,
    Touch,
    print_instr,
)
from nvbackend.isel.target.target import Target
from tests.support.golden import Golden
from tests.support.machine import Program

ACC = RegisterBlock(1, "acc")
MMA = Row(
    family="wgmma",
    opcode="wgmma.mma_async",
    ptx="wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16",
    operands=(
        output("d", RegisterClass.F32, 32, tied=True),
        operand("a_desc", RegisterClass.B64),
        operand("b_desc", RegisterClass.B64),
        immediate("trans_a", (0, 1)),
    ),
    lowering=Asm("{ptx} {{{d}}}, {a_desc}, {b_desc}, 1, 1, 1, {trans_a}, 0;"),
    effects=Effect.CONVERGENT,
    semantics=wgmma.mma_async(64, f32, f16, f16).semantics,
)


def mma(**words: int) -> MachineInstr:
    return MachineInstr(
        MMA.opcode,
        MMA,
        operands={"b_desc": "%9", "a_desc": "%8", "d": "%10..%41"},
        immediates={"trans_a": 1},
        words=words,
        touches=(Touch(ACC, Access.ACCUMULATE, (64, 64, 16)),),
    )


def descriptor(stride: int = 1024, swizzle: SwizzleMode = SwizzleMode.NONE) -> int:
    return SmemDescriptor(0, 16, stride, swizzle=swizzle).encode()


def example() -> MachineFunction:
    function = MachineFunction("gemm", Target.parse("sm_90a"), attributes={"threads": 384, "cluster": 2})
    entry = function.block("entry")
    entry.successors = ["loop", "exit"]
    entry.instructions = [
        MachineInstr("registers.write", touches=(Touch(ACC, Access.WRITE),)),
        MachineInstr("bar.sync", sync.barrier_sync(counted=True), operands={"threads": "%2", "id": "1"}),
    ]
    loop = function.block("loop")
    loop.successors = ["loop", "exit"]
    words = {"a_desc": descriptor(swizzle=SwizzleMode.B128), "b_desc": descriptor(stride=512)}
    loop.instructions = [
        MachineInstr("wgmma.fence"),
        mma(**words),
        MachineInstr("wgmma.commit_group"),
        MachineInstr("wgmma.wait_group", immediates={"pending": 0}, touches=(Touch(ACC, Access.DRAIN),)),
    ]
    function.block("exit").instructions = [
        MachineInstr("registers.read", touches=(Touch(ACC, Access.READ), Touch(RegisterBlock(2, "acc"), Access.READ))),
        MachineInstr("ret"),
    ]
    return function


def test_golden(golden: Golden) -> None:
    golden.check("machine/example.txt", str(example()))


def test_golden_of_a_program(golden: Golden) -> None:
    program = Program(
        """
        entry -> loop
          write acc
        loop -> loop exit
          fence
          mma acc n=128 a=fragment
          commit
          wait 1
        exit
          wait 0 acc
          read acc
          ret
        """
    )
    golden.check("machine/program.txt", str(program.function))


def test_operands_are_in_the_order_of_the_row() -> None:
    line = print_instr(mma())
    assert line.startswith(f"{MMA.ptx} d=%10..%41, a_desc=%8, b_desc=%9, trans_a=1  ;")


def test_words_are_printed_in_full_and_decoded() -> None:
    word = descriptor(swizzle=SwizzleMode.B128)
    line = print_instr(mma(a_desc=word))
    assert f"[a_desc 0x{word:016x}]" in line
    decoded = "start_address 0, leading_byte_offset 16, stride_byte_offset 1024, base_offset 0, swizzle B128"
    assert f"; a_desc: {decoded}; " in line


def test_a_word_that_nothing_decodes_is_printed_as_its_bits() -> None:
    printed = print_instr(mma(of_another=7))
    assert printed.replace(" [of_another 0x0000000000000007]", "") == print_instr(mma())


def test_a_word_that_does_not_decode_says_why() -> None:
    assert "b_desc: descriptor.reserved-bits" in print_instr(mma(b_desc=1 << 60))


@pytest.mark.parametrize(
    ("offset", "symbol", "extent", "printed"),
    [
        (0, "", 4, "write words.1[0, 4 bytes]"),
        (8, "", None, "write words.1[8]"),
        (0, "%i", 16, "write words.1[%i, 16 bytes]"),
        (8, "%i", 16, "write words.1[8 + %i, 16 bytes]"),
    ],
)
def test_where_an_access_begins(offset: int, symbol: str, extent: int | None, printed: str) -> None:
    touch = MemoryTouch(MemoryObject(1, "words", "shared", 64, 4), MemoryUse.WRITE, "a", offset, symbol, extent)
    assert print_instr(replace(mma(), memory=(touch,))).endswith(f"; {printed}")


def test_attributes_print_in_one_order() -> None:
    one, other = example(), example()
    other.attributes = dict(reversed(one.attributes.items()))
    assert str(one) == str(other)


def test_names_of_llvm_lose_their_quotes() -> None:
    assert print_instr(MachineInstr("x", operands={"value": '%"a.1"..%"a.9"'})) == "x value=%a.1..%a.9"


def test_an_unknown_operand_is_not_lost() -> None:
    assert print_instr(MachineInstr("x", operands={"extra": "%1"}, immediates={"n": 3})) == "x extra=%1, n=3"


@pytest.mark.parametrize(("opcode", "writes"), [(pseudo.LOAD_GLOBAL, False), (pseudo.STORE_GLOBAL, True)])
@pytest.mark.parametrize("width", [1, 12])
def test_a_plain_access_of_global_memory_is_of_its_bytes(opcode: str, writes: bool, width: int) -> None:
    said = pseudo.global_access(opcode, width)
    [access] = said.memory
    assert (access.name, access.writes, access.extent) == (pseudo.ADDRESS, writes, width)
    assert replace(said, memory=()) == NOTHING
