"""The IRBuilder of a kernel: each instruction with the user's line, and nothing where no code may be.

It refuses values that are not the function's own, and what follows the end of a block.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from llvmlite import ir

from nvbackend.builder.lower.lines import Lines
from nvbackend.builder.lower.registers import Operation
from nvbackend.builder.scopes import rules
from nvbackend.diagnostics import Location
from nvbackend.diagnostics.location import CallerChain


def owner_of(value: ir.Value) -> ir.Function | None:
    """The function that a value belongs to; None for constants."""
    return _function_of(getattr(value, "parent", None))


def _function_of(parent: object) -> ir.Function | None:
    if isinstance(parent, ir.Block):
        return parent.parent
    return parent if isinstance(parent, ir.Function) else None


def foreign_owner(own: ir.Function, values: Iterable[ir.Value]) -> ir.Function | None:
    """The first function other than `own` that one of `values` belongs to; None if all are of it, or of no function."""
    for parent in dict.fromkeys([getattr(value, "parent", None) for value in values]):  # most are of one block
        owner = _function_of(parent)
        if owner is not None and owner is not own:
            return owner
    return None


def _taken(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of IRBuilder that says what is wrong where it fails on a value of the kernel (value.kind)."""

    @functools.wraps(method)
    def call(self: ir.IRBuilder, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception:
            for each in (*args, *kwargs.values()):
                for operand in each if isinstance(each, (list, tuple)) else (each,):
                    _refuse_value(method.__name__, operand)
            raise

    return call


def _refuse_value(method: str, operand: object) -> None:
    """Raises value.kind for a value, an address or a variable, which llvmlite does not take."""
    names = {name for cls in type(operand).__mro__ for name in vars(cls)}
    way = next((way for name, way in _WAYS_TO_LLVM.items() if name in names), None)
    if way is not None and not isinstance(operand, ir.Value):
        advice = f"pass {way}, and bring the result back by k.value(result, type)"
        rules.NOT_A_VALUE.fail(given=operand, kind=f"an operand of k.llvm.{method}", advice=advice)


_WAYS_TO_LLVM = {"ir": "value.ir", "byte_offset": "address.pointer()", "value": "variable.value.ir"}
"""How a value, an address and a variable give what llvmlite takes, by an attribute that they have."""


_TAKEN = (ir.Value, ir.InlineAsm)
"""What llvmlite takes for an operand, or for what is called."""
_PARTS = (ir.AllocaInstr, ir.ExtractValue)
_OF_SLOTS = (ir.LoadInstr, ir.StoreInstr)


def _vanishes(instr: ir.Instruction) -> bool:
    """Whether LLVM's first passes remove it: it uses a stack slot, or takes a result apart. It needs no line."""
    return isinstance(instr, _PARTS) or (
        isinstance(instr, _OF_SLOTS) and isinstance(instr.operands[-1], ir.AllocaInstr)
    )


class _OfLine(AbstractContextManager[None]):
    """Around instructions of one line of a builder's."""

    __slots__ = ("_builder", "_line")

    def __init__(self, builder: LiveBuilder, line: Any) -> None:
        self._builder, self._line = builder, line

    def __enter__(self) -> None:
        self._builder._line = self._line

    def __exit__(self, *_: object) -> None:
        self._builder._line = None


Starts = dict[tuple[object, ...], tuple[ir.Value, int]]
"""Values that others are a step from, each by what it is made of, and the constant that is added to that."""


class LiveBuilder(ir.IRBuilder):  # type: ignore[misc]
    """An IRBuilder that gives each instruction the user's line that it comes from.

    It asks `check_live` before it would add an instruction after the end of a block. A caller may catch the diagnostic
    of a call after an exit; nothing of that call may be left in the block. LLVM would end the process on a value of
    another function, so none gets into an instruction (value.kernel).
    """

    def __init__(self, check_live: Callable[[], None], function: ir.Function, callers: CallerChain) -> None:
        super().__init__()
        self._check_live = check_live
        self._lines = Lines(function, callers)
        self._line: Any = None
        self._own = function
        self._starts: tuple[ir.Block | None, Starts] = None, {}

    def starts(self) -> Starts:
        """What was made in the present block and is there for what comes now."""
        block = self._block
        if self._anchor != len(block.instructions):
            return {}
        if self._starts[0] is not block:
            self._starts = block, {}
        return self._starts[1]

    def _insert(self, instr: ir.Instruction) -> None:
        block = self._block
        if self._anchor == len(block.instructions):
            self._check_open()
        own = self._own
        for operand in instr.operands:
            if isinstance(operand, ir.Instruction) and operand.parent is block:
                continue  # most operands: the function is that of the block
            if not isinstance(operand, _TAKEN):
                _refuse_value(instr.opname, operand)
            owner = owner_of(operand)
            if owner is not None and owner is not own:
                self._refuse_owner(owner)
        if not _vanishes(instr) and (line := self._line or self._lines.here()) is not None:
            instr.metadata["dbg"] = line
        super()._insert(instr)

    def _refuse_owner(self, owner: ir.Function) -> NoReturn:
        rules.FOREIGN_VALUE.fail(owner=owner.name, user=self._own.name)

    def insert_all(self, instrs: list[ir.Instruction]) -> None:
        """Insert instructions that need no line: `_vanishes` holds for all of them."""
        if self._anchor == len(self.block.instructions):
            self._check_open()
        if (owner := foreign_owner(self._own, [operand for instr in instrs for operand in instr.operands])) is not None:
            self._refuse_owner(owner)
        if self.debug_metadata is None:
            self.block.instructions[self._anchor : self._anchor] = instrs
            self._anchor += len(instrs)
        else:
            for instr in instrs:
                super()._insert(instr)

    def copied(self, value: ir.Value) -> ir.Instruction:
        """An instruction whose result is `value`: llvmlite's own bitcast to the same type gives the value itself."""
        copy = ir.CastInstr(self.block, "bitcast", value, value.type)
        self._insert(copy)
        return copy

    def _set_terminator(self, term: ir.Instruction) -> Any:
        self._check_open()
        return super()._set_terminator(term)

    def _check_open(self) -> None:
        """Raises attach.block for more at the end of a block that the user's own terminator has ended."""
        if self._block.terminator is not None:
            self._check_live()
            problem = (
                f"it has ended already, by the terminator {str(self.block.terminator).strip().partition(',')[0]!r}"
            )
            advice = "leave terminators to k: use k.return_(), k.if_ and k.loop in place of those of k.llvm"
            rules.ATTACH_BLOCK.fail(block=self.block.name, problem=problem, advice=advice)

    def of_line(self, place: Location | None) -> AbstractContextManager[None]:
        """Around instructions that all come from `place`, where it is known."""
        return _OfLine(self, None if place is None else self._lines.at(place))


def _operation(opname: str, otherwise: Callable[..., Any]) -> Callable[..., ir.Instruction]:
    """The method of IRBuilder for an operation on two values: what llvmlite checks in each is asked once."""

    @functools.wraps(otherwise)
    def call(
        self: LiveBuilder, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()
    ) -> ir.Instruction:
        if not (isinstance(lhs, ir.Value) and isinstance(rhs, ir.Value) and lhs.type is rhs.type) or flags:
            return otherwise(self, lhs, rhs, name, flags)
        instr = Operation(self._block, opname, (lhs, rhs), name)
        self._insert(instr)
        return instr

    return call


_INTEGER = ("add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "xor")
_FLOATING = ("fadd", "fsub", "fmul", "fdiv", "frem")
_OPERATIONS = {"and_": "and", "or_": "or", **{name: name for name in _INTEGER + _FLOATING}}
"""What LLVM calls the operations of IRBuilder's methods."""
for _name, _method in vars(ir.IRBuilder).items():
    if inspect.isfunction(_method) and not _name.startswith("_") and _name not in vars(LiveBuilder):
        _call = _taken(_method)
        setattr(LiveBuilder, _name, _operation(_OPERATIONS[_name], _call) if _name in _OPERATIONS else _call)
