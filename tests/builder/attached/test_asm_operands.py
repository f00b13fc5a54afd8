"""What stands for an operand of the owner's inline assembly, by the letter of its constraint and what is passed."""

from __future__ import annotations

import pytest
from llvmlite import ir

from nvbackend.builder.attached.asm_text import Unreadable, read_asm
from nvbackend.ptx.syntax import Integer

I32 = ir.IntType(32)
FUNCTION = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [I32]), "own")
BUILDER = ir.IRBuilder(FUNCTION.append_basic_block())
ARGUMENT = FUNCTION.args[0]
PASSED = {
    "number": ir.Constant(I32, 3),
    "negative": ir.Constant(I32, -3),
    "argument": ARGUMENT,
    "result": BUILDER.add(ARGUMENT, ARGUMENT),
    "float": ir.Constant(ir.FloatType(), 3.0),
    "undefined": ir.Constant(I32, ir.Undefined),
    "address": FUNCTION,
}
NUMBERS = {"number": 3, "negative": -3}


def read(letter: str, value: ir.Value) -> object:
    """The number that the text has for an operand of this letter, or the value that its register holds."""
    asm = ir.InlineAsm(ir.FunctionType(ir.VoidType(), [value.type]), "{ .reg .b32 a; mov.b32 a, $0; }", letter)
    found = read_asm(asm, [value])
    source = found.instructions[0].operands[1]
    return source.value if isinstance(source, Integer) else found.operands[source.text]


@pytest.mark.parametrize("name", PASSED)
@pytest.mark.parametrize("letter", ["n", "i"])
def test_a_letter_of_numbers_takes_whole_constants_alone(letter: str, name: str) -> None:
    """LLVM, Inline Assembler: "n" and "i" are constants that the compiler knows."""
    if name in NUMBERS:
        assert read(letter, PASSED[name]) == NUMBERS[name]
    else:
        with pytest.raises(Unreadable):
            read(letter, PASSED[name])


@pytest.mark.parametrize("name", PASSED)
@pytest.mark.parametrize("letter", ["h", "r", "l", "f", "d", "b", "q"])
def test_a_register_holds_whatever_is_passed(letter: str, name: str) -> None:
    assert read(letter, PASSED[name]) is PASSED[name]


@pytest.mark.parametrize("letter", ["m", "x", "C", "1", "0"])
def test_other_letters_and_ties_to_no_output_are_not_read(letter: str) -> None:
    with pytest.raises(Unreadable):
        read(letter, ARGUMENT)
