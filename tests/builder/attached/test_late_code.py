"""Instructions that an owner puts after the end of a block: which blocks, and how many."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.attached.owned_code import late_code

I32 = ir.IntType(32)


def add_block(function: ir.Function, before: int, after: int) -> None:
    """A block of so many instructions before its end and after it."""
    block = function.append_basic_block(f"of_{before}_and_{after}")
    builder = ir.IRBuilder(block)
    for _ in range(before):
        builder.add(function.args[0], ir.Constant(I32, 1))
    builder.ret_void()
    other = ir.IRBuilder(function.append_basic_block("other"))
    for _ in range(after):
        block.instructions.append(other.add(function.args[0], ir.Constant(I32, 2)))
    function.blocks.pop()


def test_each_block_says_how_many_are_late() -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [I32]), "own")
    counts = [(0, 0), (5, 0), (0, 1), (7, 1), (0, 3), (2, 3), (11, 2)]
    for before, after in counts:
        add_block(function, before, after)
    function.append_basic_block("open")
    assert [each.message for each in late_code(function)] == [
        f"block of_{before}_and_{after}: {after} instruction{'s' * (after > 1)} after its end"
        for before, after in counts
        if after
    ]
