"""Registers of results and of stack slots, many at once.

They are most of a GEMM's instructions, and LLVM's first passes remove all of them. llvmlite's constructors check each;
here the checks are made once for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

_VOID = ir.VoidType()


def _begin(instr: Any, block: ir.Block, kind: ir.Type, opname: str, operands: list[ir.Value], name: str) -> None:
    """What the constructors of `ir.Instruction` and its bases do."""
    instr.parent = block
    instr.type = kind
    instr.opname = opname
    instr.operands = operands
    instr.flags = []
    instr.metadata = {}
    instr._name = block.scope.register(name, deduplicate=True)


class _Member(ir.ExtractValue):  # type: ignore[misc]
    """`extractvalue` of one member of a struct."""

    def __init__(self, block: ir.Block, struct: ir.Value, index: int) -> None:
        _begin(self, block, struct.type.elements[index], "extractvalue", [struct], "")
        self.aggregate = struct
        self.indices = [index]

    def _to_string(self) -> str:
        if self.metadata:
            return str(super()._to_string())
        struct = self.aggregate
        return f"{self.get_reference()} = extractvalue {struct.type} {struct.get_reference()}, {self.indices[0]}"


class _Load(ir.LoadInstr):  # type: ignore[misc]
    """`load` of a slot."""

    def __init__(self, block: ir.Block, slot: ir.AllocaInstr, name: str) -> None:
        _begin(self, block, slot.allocated_type, "load", [slot], name)
        self.align = None

    def _to_string(self) -> str:
        if self.metadata or self.align is not None:
            return str(super()._to_string())
        (slot,) = self.operands
        return f"{self.get_reference()} = load {self.type}, {slot.type} {slot.get_reference()}"


class _Store(ir.StoreInstr):  # type: ignore[misc]
    """`store` to a slot."""

    def __init__(self, block: ir.Block, value: ir.Value, slot: ir.AllocaInstr) -> None:
        _begin(self, block, _VOID, "store", [value, slot], "")
        self.align = None

    def _to_string(self) -> str:
        if self.metadata or self.align is not None:
            return str(super()._to_string())
        value, slot = self.operands
        return f"store {value.type} {value.get_reference()}, {slot.type} {slot.get_reference()}"


def members(builder: ir.IRBuilder, struct: ir.Value, places: range) -> list[ir.Instruction]:
    """Members of a struct, as `extract_value` gives each."""
    return _inserted(builder, [_Member(builder.block, struct, place) for place in places])


def loads(builder: ir.IRBuilder, slots: Sequence[ir.AllocaInstr], name: str) -> list[ir.Instruction]:
    """What is in slots, as `load` gives each."""
    return _inserted(builder, [_Load(builder.block, slot, name) for slot in slots])


def stores(builder: ir.IRBuilder, values: Sequence[ir.Value], slots: Sequence[ir.AllocaInstr]) -> None:
    """Each value into its slot, as `store` does. Raises TypeError for a value of another type."""
    for value, slot in zip(values, slots, strict=True):
        if value.type != slot.allocated_type:
            raise TypeError(f"cannot store {value.type} to a slot of {slot.allocated_type}")
    block = builder.block
    _inserted(builder, [_Store(block, value, slot) for value, slot in zip(values, slots, strict=True)])


def _inserted(builder: ir.IRBuilder, instrs: list[ir.Instruction]) -> list[ir.Instruction]:
    """`instrs`, put where the next instruction goes; a builder may have a way for all of them."""
    insert_all = getattr(builder, "insert_all", None)
    if insert_all is not None:
        insert_all(instrs)
    else:
        for instr in instrs:
            builder._insert(instr)
    return instrs
