"""Registers taken out many at once, with lines and alignment that are set later: as llvmlite prints them."""

from __future__ import annotations

import itertools

import pytest
from llvmlite import ir

from nvbackend.builder.lower import registers

KIND = ir.IntType(32)
STRUCT = ir.LiteralStructType([ir.FloatType(), KIND])


def printed(*, ours: bool, line: bool, align: int | None) -> list[str]:
    """A member, a store and a load, by this project's functions or by llvmlite's."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [STRUCT]), "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    slot = builder.alloca(KIND, name="slot")
    if ours:
        (member,) = registers.members(builder, function.args[0], range(1, 2))
        registers.stores(builder, [member], [slot])
        store = builder.block.instructions[-1]
        (load,) = registers.loads(builder, [slot], "x")
    else:
        member = builder.extract_value(function.args[0], 1)
        store = builder.store(member, slot)
        load = builder.load(slot, "x")
    for each in (member, store, load):
        if line:
            each.set_metadata("dbg", module.add_metadata([KIND(17)]))
    for each in (store, load):
        each.align = align
    return [str(each).strip() for each in (member, store, load)]


@pytest.mark.parametrize(("line", "align"), [*itertools.product((False, True), (None, 4, 16))])
def test_lines_and_alignment_are_printed(line: bool, align: int | None) -> None:
    texts = printed(ours=True, line=line, align=align)
    assert texts == printed(ours=False, line=line, align=align)
    assert all(("!dbg" in text) is line for text in texts)
    assert all((f"align {align}" in text) is (align is not None) for text in texts[1:])
