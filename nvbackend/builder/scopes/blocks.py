"""What is open while a kernel is built: with-blocks, the threads in them, and the storage that lives in them.

Also which with-block was asked for and never opened.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from llvmlite import ir

from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.python_exits import python_exit
from nvbackend.builder.scopes.rebound import Holding, advice_for, holdings, rebound
from nvbackend.builder.thread_tables.tables import ThreadSet
from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location, MissingAttribute, Rule, caller_location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.location import caller_frame
from nvbackend.isel.machine.function import MachineBlock


@dataclass(frozen=True, slots=True)
class Body:
    """The body of the function `name`, which returns `results`: the text of a type, None for nothing."""

    name: str
    results: str | None


class Region:
    """A with-block of the kernel. Values made in it may be used while it is open."""

    __slots__ = (
        "advice",
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
        "tiles",
        "written",
    )

    def __init__(self, kind: str, location: Location | None) -> None:
        self.kind = kind
        self.location = location
        self.open = True
        self.advice = rules.SET_A_VARIABLE
        """How to use what is made in it after it."""
        self.written: set[Storage] = set()
        self.exit_block: ir.Block | None = None
        self.next_block: ir.Block | None = None
        self.left = False
        """Whether some thread leaves it by break or return."""
        self.skipped = False
        """Whether some thread leaves out the rest of a round."""
        self.rounds: tuple[ir.Value, ...] = ()
        """Of a counted loop its start, end and step."""
        self.tiles: str | None = None
        """Of a loop over tiles how the CTA comes by them (values/carried.py)."""
        self.alone = False
        """Whether at most one thread of a warp runs it."""
        self.held: list[tuple[str, Location | None, Rule]] = []
        """The blocks inside it whose end has work to do, so that no thread may leave them early; with their places.

        The rule is the one that an exit breaks.
        """
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

    def fail_scope(self) -> NoReturn:
        """Raises value.scope for a value of this block, which has ended."""
        rules.OUT_OF_SCOPE.fail(block=self.describe(), advice=self.advice)


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


class PendingBlocks:
    """The with-blocks that were asked for and not entered yet, each with its call and place."""

    def __init__(self) -> None:
        self.waiting: dict[object, tuple[str, Location | None]] = {}


_OWNERS = {
    **dict.fromkeys(("fill", "drain", "turn", "feed", "steps"), "ring"),
    **dict.fromkeys(("draw", "take"), "tiles"),
    **dict.fromkeys(("pieces", "others"), "share"),
    "whole": "sums",
}
"""What programs call the objects of which these are calls."""


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
        when = "after it" if bound.target.is_read_after else "in the next round, as it was before"
        rules.REBOUND.fail(at=place, name=bound.text, block=region.describe(), when=when, advice=advice_for(bound))

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
        if region.held:
            *_, rule = region.held[-1]
            advice = rule.fix
        elif isinstance(taken, ast.Return) and taken.value is not None:
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
    if name in _OWNERS:
        return f"{_OWNERS[name]}.{name}"
    return f"k.{name}" if noun == name else f"k.{noun}.{name}"
