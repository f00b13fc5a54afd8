"""The code of a function that has an owner beside its builder: what the builder emitted, and what the rest may do.

A function is transparent where all else in it computes values, accesses memory that is not shared, or branches: then
what its builder recorded is all that matters to the protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from llvmlite import ir

from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import GLOBAL_SPACE
from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.dry_run.successors import successors_of

_PRIVATE_SPACES = (GLOBAL_SPACE, 4, 5)
"""Address spaces that are never shared memory: global, constant and local."""
_VALUES = (
    *(ir.GEPInstr, ir.CastInstr, ir.CompareInstr, ir.SelectInstr, ir.PhiInstr, ir.AllocaInstr),
    *(ir.ExtractValue, ir.InsertValue, ir.ExtractElement, ir.InsertElement, ir.ShuffleVector),
)
_ENDS = (ir.Branch, ir.ConditionalBranch, ir.SwitchInstr, ir.IndirectBranch, ir.Ret, ir.Unreachable)
_OPERATIONS = (
    *("add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor"),
    *("fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "freeze"),
)


class FollowingBuilder(ir.IRBuilder):  # type: ignore[misc]
    """An IRBuilder at the place of another, its owner's, that remembers what is emitted through it.

    It asks `check_live` before it would add an instruction after the end of a block.
    """

    def __init__(self, owner: ir.IRBuilder, check_live: Callable[[], None]) -> None:
        self.owner = owner
        self.emitted: set[ir.Instruction] = set()
        self._check_live = check_live

    @property
    def _block(self) -> ir.Block:
        return self.owner._block

    @_block.setter
    def _block(self, block: ir.Block) -> None:
        self.owner._block = block

    @property
    def _anchor(self) -> int:
        return int(self.owner._anchor)

    @_anchor.setter
    def _anchor(self, place: int) -> None:
        self.owner._anchor = place

    @property
    def debug_metadata(self) -> Any:
        """The owner's, which every instruction gets."""
        return self.owner.debug_metadata

    @debug_metadata.setter
    def debug_metadata(self, metadata: Any) -> None:
        self.owner.debug_metadata = metadata

    def of_line(self, _place: Location | None) -> AbstractContextManager[None]:
        """What a kernel's builder does with the user's lines: here they are the owner's, of its `debug_metadata`."""
        return nullcontext()

    def _insert(self, instr: ir.Instruction) -> None:
        block = self.block
        before = block.instructions[: self._anchor] if block.is_terminated else ()
        if block.terminator in before:
            self._check_live()
            problem, advice = "the IRBuilder is after its end", "emit before the block is ended, or in another one"
            rules.ATTACH_BLOCK.fail(block=block.name, problem=problem, advice=advice)
        self.owner._insert(instr)
        self.emitted.add(instr)

    def _set_terminator(self, term: ir.Instruction) -> ir.Instruction:
        block = self.block
        if block.is_terminated:
            problem = "one of k's with-blocks ends here, and the IRBuilder has ended it before"
            advice = "leave the end of a with-block to k: use k.return_(), k.break_() or k.continue_() in it"
            rules.ATTACH_BLOCK.fail(block=block.name, problem=problem, advice=advice)
        return super()._set_terminator(term)


def wrong_ends(function: ir.Function) -> Iterator[Diagnostic]:
    """Blocks that do not end, or return what the function does not (attach.block)."""
    wanted = function.function_type.return_type
    for block in function.blocks:
        end = block.terminator
        if end is None:
            problem, advice = "it has no branch or return at its end", "end every block, then call k.verify()"
        elif isinstance(end, ir.Ret) and (returned := _returned(end)) != wanted:
            problem = f"it returns {returned}, and {function.name} returns {wanted}"
            advice = "return what the function's type says"
        else:
            continue
        yield rules.ATTACH_BLOCK.diagnose(block=block.name, problem=problem, advice=advice)


def _returned(end: ir.Ret) -> ir.Type:
    return end.operands[0].type if end.operands else ir.VoidType()


def late_code(function: ir.Function) -> Iterator[Diagnostic]:
    """Instructions after the end of a block, which LLVM refuses or drops (attach.block)."""
    for block in function.blocks:
        if block.is_terminated and block.instructions[-1] is not block.terminator:
            late = len(block.instructions) - block.instructions.index(block.terminator) - 1
            problem, advice = (
                f"{late} instruction(s) after its end",
                "emit before the block is ended, or in another one",
            )
            yield rules.ATTACH_BLOCK.diagnose(block=block.name, problem=problem, advice=advice)


def computes(function: ir.Function) -> bool:
    """Whether all that a function of the owner's does is to compute, and to access memory that is not shared."""
    return all(is_harmless(instr) for block in function.blocks for instr in block.instructions)


def homes_are_left_alone(instr: ir.Instruction, homes: KeysView[ir.Block]) -> bool:
    """Whether `instr` never leads to one of these blocks."""
    return homes.isdisjoint(successors_of(instr))


def is_harmless(instr: ir.Instruction) -> bool:
    """Whether it only computes, branches, or accesses memory that is certainly not shared; a call does more."""
    if isinstance(instr, ir.LoadInstr):
        return _is_elsewhere(instr.operands[0])
    if isinstance(instr, ir.StoreInstr):
        return _is_elsewhere(instr.operands[1])
    return isinstance(instr, (*_VALUES, *_ENDS)) or instr.opname in _OPERATIONS


def _is_elsewhere(pointer: ir.Value) -> bool:
    """Whether it certainly points to memory that is not shared."""
    return isinstance(pointer, ir.AllocaInstr) or pointer.type.addrspace in _PRIVATE_SPACES
