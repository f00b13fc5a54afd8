"""What follows from a value, against two walks through the whole function: a loop may set what it has read before."""

from __future__ import annotations

from llvmlite import ir

import nvbackend as nvb
from nvbackend import i32
from nvbackend.dry_run.program.uses import Uses

OUT = nvb.Pointer[i32]


def _function() -> ir.Function:
    """Variables that a loop sets from each other: some after they are read, some before, one by another round's."""
    parameters = [nvb.Parameter("out", OUT), nvb.Parameter("n", i32), nvb.Parameter("m", i32)]
    k = nvb.KernelBuilder("counted", "sm_90a", threads=64, parameters=parameters)
    out, n, m = k.arguments
    last, middle, first, alone = (k.var(0, i32) for _ in range(4))
    with k.range(n) as i:
        out[i] = last.value + middle.value
        last.set(middle.value + 1)
        middle.set(first.value * 2)
        first.set(m + i)
    with k.if_(last.value == k.thread_id()):
        alone.set(k.thread_id() + 1)
        out[k.block_id()] = first.value - alone.value
    k.finish(check=False)
    function: ir.Function = k.core.function
    return function


def _walked(function: ir.Function, root: ir.Value) -> set[ir.Value]:
    """The values and variables that two walks find; not those that need a third."""
    found = {root}
    for one in [one for block in function.blocks for one in block.instructions] * 2:
        is_store = one.opname == "store"
        if any(each in found for each in one.operands) and not (
            is_store and not isinstance(one.operands[1], ir.AllocaInstr)
        ):
            found.add(one.operands[1] if is_store else one)
    return found - {root}


def test_what_follows_from_each_value_is_what_two_walks_find() -> None:
    function = _function()
    uses = Uses(function)
    instructions = [one for block in function.blocks for one in block.instructions]
    several = 0
    for root in [*function.args, *(one for one in instructions if one.opname != "store")]:
        found = uses.derived_from([root])
        values = {one.operands[1] if one.opname == "store" else one for one in found}
        assert values - {root} == _walked(function, root)
        assert len(values) == len(found)
        several += len(values) > 4
    assert several > 5


def test_what_sets_a_variable() -> None:
    function = _function()
    stores = [one for block in function.blocks for one in block.instructions if one.opname == "store"]
    expected: dict[ir.Value, list[ir.Instruction]] = {}
    for one in stores:
        if isinstance(one.operands[1], ir.AllocaInstr):
            expected.setdefault(one.operands[1], []).append(one)
    assert expected and len(stores) > sum(map(len, expected.values()))
    assert Uses(function).stores == expected
