"""Registers of results and of stack slots, many at once.

They are most of a GEMM's instructions, and LLVM's first passes remove all of them. llvmlite's constructors check each;
here the checks are made once for all.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.ir._utils import DuplicatedNameError, NameScope

_VOID, _BYTE = ir.VoidType(), ir.IntType(8)


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

    def several(self, name: str, count: int) -> list[str]:
        """The next `count` of these names, each with a number where it is in use."""
        used, own = self._useset, name
        number = self._basenamemap[name]
        if name in used:
            numbered = [f"{name}.{each}" for each in range(number + 1, number + 1 + count)]
            if used.isdisjoint(numbered):
                used.update(numbered)
                self._basenamemap[name] = number + count
                return numbered
        names = []
        for _ in range(count):
            while own in used:
                number += 1
                own = f"{name}.{number}"
            used.add(own)
            names.append(own)
        self._basenamemap[name] = number
        return names


def _names(block: ir.Block, name: str, count: int) -> list[str]:
    """So many names, as the values of `block` get them one after another."""
    scope = block.scope
    if isinstance(scope, FunctionNames):
        return scope.several(name, count)
    return [scope.register(name, deduplicate=True) for _ in range(count)]


class Register(ir.Instruction):  # type: ignore[misc]
    """What is the same of instructions that are made many at once: few of them are ever marked, or renamed."""

    flags: Sequence[str] = ()
    align = None
    shown_as = ""
    """The class that messages show."""
    _metadata: dict[str, Any] | None = None
    _reference: str | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """Nodes by their names, as those of llvmlite's instructions; made when they are asked for."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def get_reference(self) -> str:
        """What operands are called in the text: the name that it has when it is first asked for, as llvmlite has it."""
        reference = self._reference
        if reference is None:
            name = self._name
            is_plain = '"' not in name and "\\" not in name
            reference = self._reference = f'%"{name}"' if is_plain else self._get_reference()
        return reference

    def __repr__(self) -> str:
        shown = f"{self.name!r} of type '{self.type}', opname {self.opname!r}, operands {self.operands!r}"
        return f"<ir.{self.shown_as or type(self).__name__} {shown}>"


class Operation(Register):
    """An operation on two values of one type."""

    shown_as = "Instruction"

    def __init__(self, block: ir.Block, opname: str, operands: tuple[ir.Value, ir.Value], name: str) -> None:
        self.parent, self.type, self.opname, self.operands = block, operands[0].type, opname, operands
        self.flags: list[str] = []
        self._name = block.scope.register(name, deduplicate=True)


class ByteStep(Register, ir.GEPInstr):  # type: ignore[misc]
    """`getelementptr` of a pointer and a constant number of bytes."""

    opname, shown_as, source_etype, inbounds = "getelementptr", "GEPInstr", _BYTE, False

    def __init__(self, block: ir.Block, pointer: ir.Value, bytes: ir.Constant) -> None:
        self.parent, self.type, self.operands = block, pointer.type, [pointer, bytes]
        self.pointer, self.indices = pointer, [bytes]
        self._name = block.scope.register("", deduplicate=True)


class Member(Register, ir.ExtractValue):  # type: ignore[misc]
    """`extractvalue` of one member of a struct."""

    opname = "extractvalue"

    def __init__(self, block: ir.Block, operands: tuple[ir.Value], indices: tuple[int], name: str) -> None:
        (struct,), (index,) = operands, indices
        self.parent, self.type, self._name = block, struct.type.elements[index], name
        self.aggregate, self.operands, self.indices = struct, operands, indices


class Slot(Register, ir.AllocaInstr):  # type: ignore[misc]
    """`alloca` of one register."""

    opname, operands, shown_as = "alloca", (), "AllocaInstr"

    def __init__(self, block: ir.Block, kind: ir.Type, pointer: ir.Type, name: str) -> None:
        self.parent, self.type, self._name = block, pointer, name
        self.allocated_type = kind


class Load(Register, ir.LoadInstr):  # type: ignore[misc]
    """`load` of a slot."""

    opname = "load"

    def __init__(self, block: ir.Block, slot: ir.AllocaInstr, name: str) -> None:
        self.parent, self.type, self.operands, self._name = block, slot.allocated_type, [slot], name


class Store(Register, ir.StoreInstr):  # type: ignore[misc]
    """`store` to a slot."""

    opname, type = "store", _VOID

    def __init__(self, block: ir.Block, value: ir.Value, slot: ir.AllocaInstr, name: str) -> None:
        self.parent, self.operands, self._name = block, [value, slot], name


def members(builder: ir.IRBuilder, struct: ir.Value, places: range) -> list[ir.Instruction]:
    """Members of a struct, as `extract_value` gives each."""
    block = builder.block
    operands = (struct,)
    names = zip(_indices(places.stop)[places.start :], _names(block, "", len(places)), strict=True)
    return _inserted(builder, [Member(block, operands, indices, name) for indices, name in names])


@functools.cache
def _indices(count: int) -> list[tuple[int]]:
    """The indices of so many members: thousands of instructions have these few."""
    return [(index,) for index in range(count)]


def slots(builder: ir.IRBuilder, kinds: Sequence[ir.Type], names: Iterable[str]) -> list[ir.Instruction]:
    """A stack slot for each of `kinds`, as `alloca` makes it."""
    block = builder.block
    register = block.scope.register
    pointers = {key: kind.as_pointer() for key, kind in {id(kind): kind for kind in kinds}.items()}
    named = zip(kinds, names, strict=True)
    made = [Slot(block, kind, pointers[id(kind)], register(name, deduplicate=True)) for kind, name in named]
    return _inserted(builder, made)


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
