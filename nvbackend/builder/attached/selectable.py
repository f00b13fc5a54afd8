"""Whether LLVM can certainly compile what an owner emitted: it ends its process where it cannot."""

from __future__ import annotations

import re
from typing import cast

from llvmlite import ir

from nvbackend.builder.attached.core import AttachedCore
from nvbackend.builder.attached.foreign import foreign
from nvbackend.builder.attached.owned_code import computes
from nvbackend.builder.kernel.owners import builder_of
from nvbackend.builder.ops.inline.intrinsic_rows import EARLIER

_WIDTHS = (1, 8, 16, 32, 64)
_PLAIN = (ir.VoidType, ir.FloatType, ir.DoubleType, ir.HalfType, ir.PointerType, ir.LabelType)
_GENERAL, _OF_NVPTX = "llvm.", "llvm.nvvm."
_EVERYWHERE = re.compile(r"llvm\.nvvm\.read\.ptx\.sreg\.((tid|ntid|ctaid|nctaid)\.[xyz]|laneid|warpsize)")
"""Registers that every target has."""
_WORD = ir.IntType(32)
_LETTERS: dict[str, tuple[ir.Type, ...]] = {
    "h": (ir.IntType(16),),
    "r": (_WORD,),
    "l": (ir.IntType(64),),
    "f": (ir.FloatType(),),
    "d": (ir.DoubleType(),),
    "n": (_WORD, ir.IntType(64)),
}
"""The types that LLVM certainly takes for the letters of constraints."""
_OUTPUT, _INPUT, _CLOBBER = re.compile(r"=&?([hrlfd])"), re.compile(r"([hrlfdn]|\d+)"), "~{memory}"


def may_be_refused(module: ir.Module) -> bool:
    """Whether a function of the module has instructions of its owner's that LLVM may have no code for."""
    return any(_may_be_refused(function) for function in module.functions if function.blocks)


def _may_be_refused(function: ir.Function) -> bool:
    k = builder_of(function)
    core = cast("AttachedCore", k.core) if k is not None and k.core.attached is not None else None
    emitted = set() if core is None else core.following.emitted
    return any(
        not _is_safe(core, instruction)
        for block in function.blocks
        for instruction in block.instructions
        if instruction not in emitted
    )


def _is_safe(core: AttachedCore | None, instruction: ir.Instruction) -> bool:
    if not all(_is_plain(value.type) for value in (instruction, *instruction.operands) if hasattr(value, "type")):
        return False
    if not isinstance(instruction, ir.CallInstr):
        return not isinstance(instruction, ir.IndirectBranch)
    callee = instruction.callee
    name = str(callee.name) if isinstance(callee, ir.Function) else ""
    if name and not name.startswith(_GENERAL):
        return True
    if core is None or not (_is_sound(instruction) if not name else _is_as_declared(callee)):
        return False
    said = foreign(core, instruction, computes)
    # Of what only computes the target is not known: only instructions of the catalogue are checked for theirs.
    return not said.unknown and (not name or bool(said.instructions) or _EVERYWHERE.fullmatch(name) is not None)


def _is_as_declared(callee: ir.Function) -> bool:
    """Whether LLVM can replace the callee where it does: of all other intrinsics it verifies the types."""
    name = str(callee.name)
    if name not in EARLIER:
        return name.startswith(_OF_NVPTX)
    made = callee.function_type
    returned = _WORD if EARLIER[name].startswith("red.") else ir.VoidType()
    return bool(made.return_type == returned and all(each == _WORD for each in made.args))


def _is_sound(call: ir.CallInstr) -> bool:
    """Whether the constraints of inline assembly are those of its operands: LLVM asserts most of that."""
    made = call.callee.function_type
    returned = made.return_type
    results = returned.elements if isinstance(returned, ir.LiteralStructType) else (returned,)
    results = () if isinstance(returned, ir.VoidType) else tuple(results)
    text = str(call.callee.constraint)
    parts = [part for part in text.split(",") if part != _CLOBBER] if text else []
    outputs, inputs = parts[: len(results)], parts[len(results) :]
    letters = [match[1] if (match := _OUTPUT.fullmatch(part)) else "" for part in outputs]
    if len(letters) != len(results) or len(inputs) != len(made.args):
        return False
    for part, kind in zip(inputs, made.args, strict=True):
        match = _INPUT.fullmatch(part)
        if match is None or (part.isdigit() and (int(part) >= len(results) or results[int(part)] != kind)):
            return False
    kinds = [*zip(letters, results, strict=True), *zip(inputs, made.args, strict=True)]
    return all(letter.isdigit() or _takes(letter, kind) for letter, kind in kinds)


def _takes(letter: str, kind: ir.Type) -> bool:
    is_address = isinstance(kind, ir.PointerType) and kind.addrspace in (0, 1)
    return kind in _LETTERS.get(letter, ()) or (letter == "l" and is_address)


def _is_plain(kind: ir.Type) -> bool:
    if isinstance(kind, ir.IntType):
        return kind.width in _WIDTHS
    if isinstance(kind, ir.VectorType):
        return _is_plain(kind.element)
    if isinstance(kind, ir.LiteralStructType):
        return all(map(_is_plain, kind.elements))
    return isinstance(kind, (*_PLAIN, ir.FunctionType, ir.ArrayType))
