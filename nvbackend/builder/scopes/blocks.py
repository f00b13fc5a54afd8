"""What is open while a kernel is built: with-blocks, the threads in them, and the storage that lives in them.

Also which with-block was asked for and never opened, and that nothing follows the end of a block.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from llvmlite import ir

from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.lines import Lines
from nvbackend.builder.scopes.python_exits import python_exit
from nvbackend.builder.scopes.rebound import Holding, holdings, rebound
from nvbackend.builder.scopes.registers import Operation
from nvbackend.builder.thread_tables.tables import ThreadSet
from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location, MissingAttribute, caller_location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.location import CallerChain, caller_frame
from nvbackend.isel.machine.function import MachineBlock


@dataclass(frozen=True, slots=True)
class Body:
    """The body of the function `name`, which returns `results`: the text of a type, None for nothing."""

    name: str
    results: str | None


class Region:
    """A with-block of the kernel. Values made in it may be used while it is open."""

    __slots__ = (
        "alone",
        "among",
        "anchor",
        "crew",
        "done",
        "entered",
        "executing",
        "exit_block",
        "function",
        "held",
        "kind",
        "left",
        "location",
        "next_block",
        "open",
        "rounds",
        "skipped",
        "written",
    )

    def __init__(self, kind: str, location: Location | None) -> None:
        self.kind = kind
        self.location = location
        self.open = True
        self.written: set[Storage] = set()
        self.exit_block: ir.Block | None = None
        self.next_block: ir.Block | None = None
        self.left = False
        """Whether some thread leaves it by break or return."""
        self.skipped = False
        """Whether some thread leaves out the rest of a round."""
        self.rounds: tuple[ir.Value, ...] = ()
        """Of a counted loop its start, end and step."""
        self.alone = False
        """Whether at most one thread of a warp runs it."""
        self.held: list[tuple[str, Location | None]] = []
        """The blocks inside it whose end has work to do, so that no thread may leave them early; with their places."""
        self.executing: ThreadSet | None = None
        """The threads of all CTAs of the cluster that are in it, where they are known."""
        self.among: int | None = None
        """A bit for each thread of the CTA that may come to it; None where that is not known."""
        self.crew: ThreadSet | None = None
        """Those that certainly come to it together, each time that its anchor is run; None where that is not known."""
        self.anchor: str | None = None
        """The block that brings the crew to every block of it; None where each of them does so itself."""
        self.entered: list[MachineBlock] = []
        """The blocks in it and in the regions inside."""
        self.function: Body | None = None
        """The function whose body it is."""
        self.done: ir.Block | None = None
        """Where the body of a function goes on after k.return_."""

    def describe(self) -> str:
        """What diagnostics call it, with its place."""
        return f"the {self.kind} block at {self.location}" if self.location else f"a {self.kind} block"


LOOPS = ("range", "loop")
"""The kinds of regions that run more than once."""


class Storage:
    """Stack slots, one a register. The builder keeps the registers it knows and writes slots where blocks end."""

    __slots__ = ("name", "region", "slots")

    def __init__(self, name: str, slots: tuple[ir.AllocaInstr, ...], region: Region) -> None:
        self.name = name
        self.slots = slots
        self.region = region


Owner = TypeVar("Owner")
Given = ParamSpec("Given")
Yielded = TypeVar("Yielded")


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


class PendingBlocks:
    """The with-blocks that were asked for and not entered yet, each with its call and place."""

    def __init__(self) -> None:
        self.waiting: dict[object, tuple[str, Location | None]] = {}


_OF_RINGS = ("fill", "drain", "turn", "feed", "steps")


class _Block(AbstractContextManager[Yielded]):
    """A with-block that stops waiting when it is entered, and that Python must run to its end.

    Python's own statements see the block as what it is, an object that is neither a condition nor a sequence.
    """

    __slots__ = ("_builder", "_call", "_held", "_inside", "_is_entered", "_place", "_region")

    def __init__(self, inside: AbstractContextManager[Yielded], builder: Any, call: str) -> None:
        self._inside = inside
        self._builder = builder
        self._call = call
        self._region: Region | None = None
        self._held: list[Holding] = []
        self._is_entered = False
        self._place: Location | None = None
        builder.asked.waiting[self] = (call, builder.callers.location())

    def __enter__(self) -> Yielded:
        if self._is_entered:
            rules.ENTERED_TWICE.fail(call=self._call, notes=(("it was entered here", self._place),))
        self._is_entered, self._place = True, self._builder.callers.location()
        self._builder.asked.waiting.pop(self, None)
        around = len(self._builder.regions)
        entered = self._inside.__enter__()
        opened = self._builder.regions[around:]
        self._region = opened[0] if opened else None
        if opened and (frame := caller_frame(passes_compilers=False)) is not None:
            self._held = holdings(frame)
        return entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if error is not None:
            return self._inside.__exit__(kind, error, traceback)
        if self._region is not None and (left := self._left(self._region)) is not None:
            raised = DiagnosticError([left])
            self._inside.__exit__(DiagnosticError, raised, None)
            raise raised
        self._inside.__exit__(None, None, None)
        if self._region is not None:
            self._check_names(self._region)
        return None

    def _check_names(self, region: Region) -> None:
        """Raises value.rebound for what Python has bound to another value in the block, and reads after it."""
        frame = caller_frame(passes_compilers=False) if self._held else None
        bound = None if frame is None else rebound(frame, self._held, region)
        if frame is None or bound is None:
            return
        here = caller_location()
        callers = here.callers if here is not None else ()
        place = Location(frame.f_code.co_filename, bound.target.line, frame.f_code.co_name, callers)
        kind, text = type(bound.before).__name__, bound.text
        made = "" if kind == "Variable" else f"make it a variable before the block, {text} = k.var(...), and "
        advice = f"{made}set it inside: {text}.set(...)"
        if kind == "Address":
            advice = (
                f"keep the offset in a variable: at = k.var(0) before the block, at += ... inside, and ({text} + at)"
            )
        when = "after it" if bound.target.is_read_after else "in the next round, as it was before"
        rules.REBOUND.fail(at=place, name=text, block=region.describe(), when=when, advice=advice)

    def _left(self, region: Region) -> Diagnostic | None:
        """control.left where Python leaves the block by `return`, `break` or `continue`."""
        frame = caller_frame(passes_compilers=False)  # the statement that Python runs
        taken = None if frame is None else python_exit(frame, loop=region.exit_block is not None)
        if frame is None or taken is None:
            return None
        keyword = type(taken).__name__.lower()
        here = caller_location()
        callers = here.callers if here is not None else ()
        place = Location(frame.f_code.co_filename, taken.lineno, frame.f_code.co_name, callers)
        in_loop = any(region.exit_block is not None for region in self._builder.regions)
        if isinstance(taken, ast.Return) and taken.value is not None:
            advice = "set a variable, k.var(...), in the block and return it after the block"
        elif isinstance(taken, ast.Return) or in_loop:
            advice = f"use k.{keyword}_if(condition), or k.{keyword}_() in the block"
        else:
            advice = f"make the loop one of the kernel, `with k.range(...) as i:`, and use k.{keyword}_if(condition)"
        return rules.LEFT.diagnose(at=place, statement=keyword, block=region.describe(), advice=advice)

    def __repr__(self) -> str:
        return f"{self._call}(...)"

    def __getattr__(self, name: str) -> NoReturn:
        """Raises control.with: what the block gives is there inside of it."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        advice = f"write `with {self._call}(...) as opened:`, and use opened.{name} inside"
        raise MissingAttribute(
            [rules.NO_WITH.diagnose(call=self._call, problem=f"itself has no .{name}", advice=advice)]
        )

    def __iter__(self) -> NoReturn:
        rules.NO_WITH.fail(
            call=self._call, problem="is not a Python sequence", advice=f"write `with {self._call}(...) as i:`"
        )

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 (it never returns)
        rules.NO_WITH.fail(
            call=self._call, problem="is not a Python condition", advice=f"write `with {self._call}(...):`"
        )


def with_block(
    function: Callable[Concatenate[Owner, Given], Iterator[Yielded]],
) -> Callable[Concatenate[Owner, Given], AbstractContextManager[Yielded]]:
    """`contextlib.contextmanager` for the builder's calls: one that is never entered is found when the kernel ends.

    The method's owner has the builder or its core as `_k`.
    """
    make = contextmanager(function)

    @functools.wraps(function)
    def call(self: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> AbstractContextManager[Yielded]:
        owner: Any = self
        builder = owner._k
        core = getattr(builder, "core", builder)
        return _Block(make(self, *args, **kwargs), core, _written(owner, function.__name__))

    return call


def _written(owner: object, name: str) -> str:
    """The call as a program writes it: k.if_, k.wgmma.group, ring.fill."""
    noun = getattr(type(owner), "__noun__", name)
    return f"ring.{name}" if name in _OF_RINGS else f"k.{name}" if noun == name else f"k.{noun}.{name}"
