"""Whether LLVM can certainly compile what an owner emitted: it ends its process where it cannot."""

from __future__ import annotations

from typing import cast

from llvmlite import ir

from nvbackend.builder.attached.core import AttachedCore
from nvbackend.builder.attached.foreign import foreign
from nvbackend.builder.attached.owned_code import computes
from nvbackend.builder.kernel.owners import builder_of

_WIDTHS = (1, 8, 16, 32, 64)
_PLAIN = (ir.VoidType, ir.FloatType, ir.DoubleType, ir.HalfType, ir.PointerType, ir.LabelType)
_GENERAL, _OF_NVPTX = "llvm.", "llvm.nvvm."


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
        return True
    callee = instruction.callee
    name = str(callee.name) if isinstance(callee, ir.Function) else ""
    if name and not name.startswith(_GENERAL):
        return True
    is_catalogued = isinstance(callee, ir.InlineAsm) or name.startswith(_OF_NVPTX)
    return is_catalogued and core is not None and not foreign(core, instruction, computes).unknown


def _is_plain(kind: ir.Type) -> bool:
    if isinstance(kind, ir.IntType):
        return kind.width in _WIDTHS
    if isinstance(kind, ir.VectorType):
        return _is_plain(kind.element)
    if isinstance(kind, ir.LiteralStructType):
        return all(map(_is_plain, kind.elements))
    return isinstance(kind, (*_PLAIN, ir.FunctionType, ir.ArrayType))
