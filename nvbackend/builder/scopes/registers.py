"""Registers of results and of stack slots, many at once.

They are most of a GEMM's instructions, and LLVM's first passes remove all of them. llvmlite's constructors check each;
here the checks are made once for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from llvmlite.ir._utils import DuplicatedNameError, NameScope

_VOID = ir.VoidType()


class FunctionNames(NameScope):  # type: ignore[misc]
    """The names of a function's values, as llvmlite gives them: one of two equal ones gets a number."""

    def __init__(self, before: NameScope) -> None:
        self._useset, self._basenamemap = before._useset, before._basenamemap

    def register(self, name: str, deduplicate: bool = False) -> str:
        """`name`, or where it is in use and may be changed the next one with a number, which is then in use."""
        used = self._useset
        if name in used:
            if not deduplicate:
                raise DuplicatedNameError(name)
            base, number = name, self._basenamemap[name]
            while name in used:
                number += 1
                name = f"{base}.{number}"
            self._basenamemap[base] = number
        used.add(name)
        return name


def _begin(instr: Any, block: ir.Block, kind: ir.Type, opname: str, operands: list[ir.Value], name: str) -> None:
    """What the constructors of `ir.Instruction` and its bases do."""
    instr.parent = block
    instr.type = kind
    instr.opname = opname
    instr.operands = operands
    instr.flags = []
    instr.metadata = {}
    instr._name = block.scope.register(name, deduplicate=True)


class Member(ir.ExtractValue):  # type: ignore[misc]
    """`extractvalue` of one member of a struct."""

    def __init__(self, block: ir.Block, struct: ir.Value, index: int) -> None:
        _begin(self, block, struct.type.elements[index], "extractvalue", [struct], "")
        self.aggregate = struct
        self.indices = [index]


class Load(ir.LoadInstr):  # type: ignore[misc]
    """`load` of a slot."""

    def __init__(self, block: ir.Block, slot: ir.AllocaInstr, name: str) -> None:
        _begin(self, block, slot.allocated_type, "load", [slot], name)
        self.align = None


class Store(ir.StoreInstr):  # type: ignore[misc]
    """`store` to a slot."""

    def __init__(self, block: ir.Block, value: ir.Value, slot: ir.AllocaInstr) -> None:
        _begin(self, block, _VOID, "store", [value, slot], "")
        self.align = None


def members(builder: ir.IRBuilder, struct: ir.Value, places: range) -> list[ir.Instruction]:
    """Members of a struct, as `extract_value` gives each."""
    return _inserted(builder, [Member(builder.block, struct, place) for place in places])


def loads(builder: ir.IRBuilder, slots: Sequence[ir.AllocaInstr], name: str) -> list[ir.Instruction]:
    """What is in slots, as `load` gives each."""
    return _inserted(builder, [Load(builder.block, slot, name) for slot in slots])


def stores(builder: ir.IRBuilder, values: Sequence[ir.Value], slots: Sequence[ir.AllocaInstr]) -> None:
    """Each value into its slot, as `store` does. Raises TypeError for a value of another type."""
    for value, slot in zip(values, slots, strict=True):
        if value.type != slot.allocated_type:
            raise TypeError(f"cannot store {value.type} to a slot of {slot.allocated_type}")
    block = builder.block
    _inserted(builder, [Store(block, value, slot) for value, slot in zip(values, slots, strict=True)])


def _inserted(builder: ir.IRBuilder, instrs: list[ir.Instruction]) -> list[ir.Instruction]:
    """`instrs`, put where the next instruction goes; a builder may have a way for all of them."""
    insert_all = getattr(builder, "insert_all", None)
    if insert_all is not None:
        insert_all(instrs)
    else:
        for instr in instrs:
            builder._insert(instr)
    return instrs
