"""Calls of device functions in place of their bodies, which were expanded for the analyses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from nvbackend.builder.scopes.function_rules import ESCAPE
from nvbackend.builder.scopes.in_functions import Call


@contextmanager
def spliced(function: ir.Function, calls: Sequence[Call]) -> Iterator[None]:
    """Inside, `function` has its `calls` in place of the bodies that were judged."""
    blocks = list(function.blocks)
    ends = [(each.before, list(each.before.instructions)) for each in calls]
    replaced = splice(function, calls)
    try:
        yield
    finally:
        function.blocks[:] = blocks
        for block, instructions in ends:
            block.instructions[:] = instructions
        for instr, old, new in reversed(replaced):
            _replace(instr, new, old)


def splice(function: ir.Function, calls: Sequence[Call]) -> list[tuple[ir.Instruction, ir.Value, ir.Value]]:
    """Put the calls in; returns which use of which value became another one. Raises function.escape."""
    if not calls:
        return []
    inside = {block for each in calls for block in each.body}
    own = [each for each in calls if each.before not in inside]
    function.blocks[:] = [block for block in function.blocks if block not in inside]
    named: dict[ir.Value, ir.Value] = {}
    for each in own:
        named.update(_put(each))
    replaced = []
    for block in function.blocks:
        for instr in block.instructions:
            for old in {id(operand): operand for operand in instr.operands}.values():
                if old in named:
                    _replace(instr, old, named[old])
                    replaced.append((instr, old, named[old]))
                elif isinstance(old, ir.Instruction) and old.parent in inside:
                    of = next(each for each in own if old.parent in each.body)
                    ESCAPE.fail(at=of.place, value=old.get_reference(), function=of.function.name)
    return replaced


def _replace(instr: ir.Instruction, old: ir.Value, new: ir.Value) -> None:
    """Have `instr` use `new` for `old`, also where llvmlite prints fields of the class in place of the operands."""
    instr.replace_usage(old, new)
    if isinstance(instr, ir.GEPInstr):
        instr.pointer, *instr.indices = instr.operands
    elif isinstance(instr, ir.InsertValue):
        instr.aggregate, instr.value = instr.operands
    elif isinstance(instr, ir.ExtractValue):
        (instr.aggregate,) = instr.operands


def _put(each: Call) -> dict[ir.Value, ir.Value]:
    """Put one call in; what its results are now called."""
    before = each.before
    branch = before.instructions.pop()
    made = ir.CallInstr(before, each.function, each.arguments)
    for kind, line in branch.metadata.items():
        made.metadata[kind] = line
    before.instructions.append(made)
    named: dict[ir.Value, ir.Value] = {}
    for index, result in enumerate(each.results):
        if not (isinstance(result, ir.Instruction) and result.parent in each.body):
            continue
        part = made
        if len(each.results) > 1:
            part = ir.ExtractValue(before, made, [index])
            before.instructions.append(part)
        named[result] = part
    before.instructions.append(ir.Branch(before, "br", [each.after]))
    return named
