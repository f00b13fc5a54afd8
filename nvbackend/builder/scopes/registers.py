"""Registers of results and of stack slots, many at once.

They are most of a GEMM's instructions, and LLVM's first passes remove all of them. llvmlite's constructors check each;
here the checks are made once for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    def several(self, name: str, count: int) -> Iterator[str]:
        """The next `count` of these names, each with a number where it is in use."""
        used, own = self._useset, name
        number = self._basenamemap[name]
        for _ in range(count):
            while own in used:
                number += 1
                own = f"{name}.{number}"
            used.add(own)
            yield own
        self._basenamemap[name] = number


def _names(block: ir.Block, name: str, count: int) -> Iterator[str]:
    """So many names, as the values of `block` get them one after another."""
    scope = block.scope
    if isinstance(scope, FunctionNames):
        return scope.several(name, count)
    return (scope.register(name, deduplicate=True) for _ in range(count))


def _begin(instr: Any, block: ir.Block, kind: ir.Type, opname: str, operands: list[ir.Value], name: str) -> None:
    """What the constructors of `ir.Instruction` and its bases do."""
    instr.parent = block
    instr.type = kind
    instr.opname = opname
    instr.operands = operands
    instr.flags = []
    instr.metadata = {}
    instr._name = name


class Member(ir.ExtractValue):  # type: ignore[misc]
    """`extractvalue` of one member of a struct."""

    def __init__(self, block: ir.Block, struct: ir.Value, index: int, name: str) -> None:
        _begin(self, block, struct.type.elements[index], "extractvalue", [struct], name)
        self.aggregate = struct
        self.indices = [index]

    def _get_reference(self) -> str:
        return f'%"{self._name}"'  # a number, which needs no escape


class Load(ir.LoadInstr):  # type: ignore[misc]
    """`load` of a slot."""

    def __init__(self, block: ir.Block, slot: ir.AllocaInstr, name: str) -> None:
        _begin(self, block, slot.allocated_type, "load", [slot], name)
        self.align = None


class Store(ir.StoreInstr):  # type: ignore[misc]
    """`store` to a slot."""

    def __init__(self, block: ir.Block, value: ir.Value, slot: ir.AllocaInstr, name: str) -> None:
        _begin(self, block, _VOID, "store", [value, slot], name)
        self.align = None


def members(builder: ir.IRBuilder, struct: ir.Value, places: range) -> list[ir.Instruction]:
    """Members of a struct, as `extract_value` gives each."""
    block = builder.block
    names = zip(places, _names(block, "", len(places)), strict=True)
    return _inserted(builder, [Member(block, struct, place, name) for place, name in names])


def loads(builder: ir.IRBuilder, slots: Sequence[ir.AllocaInstr], name: str) -> list[ir.Instruction]:
    """What is in slots, as `load` gives each."""
    block = builder.block
    names = zip(slots, _names(block, name, len(slots)), strict=True)
    return _inserted(builder, [Load(block, slot, own) for slot, own in names])


def stores(builder: ir.IRBuilder, values: Sequence[ir.Value], slots: Sequence[ir.AllocaInstr]) -> None:
    """Each value into its slot, as `store` does. Raises TypeError for a value of another type."""
    for value, slot in zip(values, slots, strict=True):
        if value.type != slot.allocated_type:
            raise TypeError(f"cannot store {value.type} to a slot of {slot.allocated_type}")
    block = builder.block
    stored = zip(values, slots, _names(block, "", len(slots)), strict=True)
    _inserted(builder, [Store(block, value, slot, name) for value, slot, name in stored])


def _inserted(builder: ir.IRBuilder, instrs: list[ir.Instruction]) -> list[ir.Instruction]:
    """`instrs`, put where the next instruction goes; a builder may have a way for all of them."""
    insert_all = getattr(builder, "insert_all", None)
    if insert_all is not None:
        insert_all(instrs)
    else:
        for instr in instrs:
            builder._insert(instr)
    return instrs
