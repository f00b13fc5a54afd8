"""A module as LLVM's text, in one pass over its instructions.

It is the text that llvmlite prints, letter by letter. llvmlite builds each line of several buffers, by methods of a
class and its bases; here a line is one formatted string, for the instructions that kernels consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from llvmlite import ir

from nvbackend.builder.lower.lowering import AsmCall, TypedCall
from nvbackend.builder.lower.registers import ByteStep, Load, Member, Operation, Slot, Store


def text_of_module(module: ir.Module) -> str:
    """The text of a module, as `str` gives it."""
    if type(module).__repr__ is not ir.Module.__repr__:
        return str(module)
    lines = [
        f'; ModuleID = "{module.name}"',
        f'target triple = "{module.triple}"',
        f'target datalayout = "{module.data_layout}"',
        "",
        *(kind.get_declaration() for kind in module.get_identified_types().values()),
        *map(_global, module.globals.values()),
        *module._get_metadata_lines(),
    ]
    return "\n".join(lines)


def _global(value: ir.GlobalValue) -> str:
    if type(value) is not ir.Function or not value.blocks:
        return str(value)
    head: list[str] = []
    value.descr_prototype(head)
    return "".join([*head, "{\n", *_body(value), "}\n"])


def _body(function: ir.Function) -> list[str]:
    lines: list[str] = []
    marked = _Marks().text
    for block in function.blocks:
        lines.append(f"{block._format_name()}:\n")
        for kind, run in groupby(block.instructions, type):
            if kind is Member:
                lines += _members(run)
            elif kind in _UNMARKED:
                write = _WRITTEN[kind]
                lines += [f"  {write(instr)}{_metadata(instr) if instr._metadata else ''}\n" for instr in run]
            elif kind in _WRITTEN:
                write = _WRITTEN[kind]
                lines += [f"  {write(instr)}{marked(instr) if instr.metadata else ''}\n" for instr in run]
            else:
                lines += [f"  {instr}\n" for instr in run]
    return lines


class _Marks:
    """The texts of instructions' metadata: many instructions are of one line of the user's."""

    def __init__(self) -> None:
        self._of_lines: dict[int, str] = {}

    def text(self, instr: Any) -> str:
        """As `_metadata`."""
        marks = instr.metadata
        line = marks.get("dbg")
        if line is None or len(marks) > 1:
            return _metadata(instr)
        known = self._of_lines.get(id(line))
        if known is None:
            known = self._of_lines[id(line)] = _metadata(instr)
        return known


def _members(run: Iterable[Any]) -> Iterator[str]:
    """The lines of members. Many members of one struct follow each other."""
    struct: Any = None
    shared = ""
    for instr in run:
        if instr._metadata:
            yield f"  {_member(instr)}{_metadata(instr)}\n"
            continue
        if instr.aggregate is not struct:
            struct = instr.aggregate
            shared = f" = extractvalue {struct.type!s} {struct.get_reference()}, "
        yield f"  {instr._reference or instr.get_reference()}{shared}{instr.indices[0]}\n"


def _metadata(instr: Any) -> str:
    return "".join([f", !{name} {node.get_reference()}" for name, node in instr.metadata.items()])


def _operation(instr: Any) -> str:
    flags = f" {' '.join(instr.flags)}" if instr.flags else ""
    operands = ", ".join([operand.get_reference() for operand in instr.operands])
    return f"{instr.get_reference()} = {instr.opname}{flags} {instr.type!s} {operands}"


def _spaced(instr: Any) -> str:
    """What llvmlite writes before the metadata of some instructions."""
    return " " if instr.metadata else ""


def _comparison(instr: Any) -> str:
    left, right = instr.operands
    flags = "".join([f" {flag}" for flag in instr.flags])
    return (
        f"{instr.get_reference()} = {instr.opname}{flags} {instr.op} {left.type!s} {left.get_reference()}, "
        f"{right.get_reference()}{_spaced(instr)}"
    )


def _cast(instr: Any) -> str:
    (value,) = instr.operands
    return (
        f"{instr.get_reference()} = {instr.opname} {value.type!s} {value.get_reference()} to {instr.type!s}"
        f"{_spaced(instr)}"
    )


def _member(instr: Any) -> str:
    struct, indices = instr.aggregate, ", ".join(map(str, instr.indices))
    return f"{instr.get_reference()} = extractvalue {struct.type!s} {struct.get_reference()}, {indices}{_spaced(instr)}"


def _selection(instr: Any) -> str:
    condition, yes, no = [f"{value.type!s} {value.get_reference()}" for value in instr.operands]
    return f"{instr.get_reference()} = select {' '.join(instr.flags)} {condition}, {yes}, {no}{_spaced(instr)}"


def _step(instr: Any) -> str:
    pointer = instr.pointer
    indices = ", ".join([f"{index.type!s} {index.get_reference()}" for index in instr.indices])
    return (
        f"{instr.get_reference()} = getelementptr{' inbounds' if instr.inbounds else ''} {instr.source_etype!s}, "
        f"{pointer.type!s} {pointer.get_reference()}, {indices}{_spaced(instr)}"
    )


def _aligned(instr: Any) -> str:
    return "" if instr.align is None else f", align {instr.align}"


def _load(instr: Any) -> str:
    (place,) = instr.operands
    return f"{instr.get_reference()} = load {instr.type!s}, {place.type!s} {place.get_reference()}{_aligned(instr)}"


def _store(instr: Any) -> str:
    value, place = instr.operands
    return f"store {value.type!s} {value.get_reference()}, {place.type!s} {place.get_reference()}{_aligned(instr)}"


def _call(instr: Any) -> str:
    function, attributes = instr.callee.function_type, instr.arg_attributes
    if attributes or function.var_arg:
        buffer: list[str] = []
        instr._descr(buffer, add_metadata=False)
        text = "".join(buffer).rstrip()
    else:
        result = function.return_type
        arguments = ", ".join(_typed(instr.args))
        before = f"{instr.tail} call" if instr.tail else "call"
        math = f" {' '.join(instr.fastmath._to_list(result))}" if instr.fastmath else ""
        convention = f"{instr.cconv} " if instr.cconv else ""
        after = f" {' '.join(instr.attributes._to_list(result))}" if instr.attributes else ""
        callee = f"{convention}{result!s} {instr.callee.get_reference()}"
        text = f"{before}{math} {callee}({arguments}){after}"
    return text if isinstance(instr.type, ir.VoidType) else f"{instr.get_reference()} = {text}"


def _typed(values: Iterable[Any]) -> Iterator[str]:
    """Values with their types. Many neighbours are of one type."""
    kind: Any = None
    shown = ""
    for value in values:
        if value.type is not kind:
            kind, shown = value.type, str(value.type)
        yield f"{shown} {value.get_reference()}"


def _slot(instr: Any) -> str:
    count = "".join([f", {operand.type!s} {operand.get_reference()}" for operand in instr.operands])
    return f"{instr.get_reference()} = alloca {instr.allocated_type!s}{count}{_aligned(instr)}"


def _branch(instr: Any) -> str:
    targets = ", ".join([f"{operand.type!s} {operand.get_reference()}" for operand in instr.operands])
    return f"{instr.opname} {targets}"


_WRITTEN: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((ir.Instruction, Operation), _operation),
    **dict.fromkeys((ir.ICMPInstr, ir.FCMPInstr), _comparison),
    ir.CastInstr: _cast,
    **dict.fromkeys((ir.ExtractValue, Member), _member),
    ir.SelectInstr: _selection,
    **dict.fromkeys((ir.GEPInstr, ByteStep), _step),
    **dict.fromkeys((ir.LoadInstr, Load), _load),
    **dict.fromkeys((ir.StoreInstr, Store), _store),
    **dict.fromkeys((ir.AllocaInstr, Slot), _slot),
    **dict.fromkeys((ir.CallInstr, TypedCall, AsmCall), _call),
    **dict.fromkeys((ir.Branch, ir.ConditionalBranch), _branch),
}
"""What writes an instruction, but for its metadata, by its class. Those of other classes, llvmlite writes."""
_UNMARKED = (Slot, Load, Store)
"""Classes of instructions that are hardly ever marked: their metadata is not made to be looked at."""
