"""With-blocks of a kernel: which one is open, and which was asked for and never opened."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from llvmlite import ir

from nvbackend.builder.execution import Threads
from nvbackend.builder.storage import Storage
from nvbackend.diagnostics import Location, caller_location

Owner = TypeVar("Owner")
Given = ParamSpec("Given")
Yielded = TypeVar("Yielded")


class Region:
    """A with-block of the kernel. Values made in it may be used while it is open."""

    __slots__ = (
        "alone",
        "executing",
        "exit_block",
        "held",
        "kind",
        "left",
        "location",
        "next_block",
        "open",
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
        self.alone = False
        """Whether at most one thread of a warp runs it."""
        self.held: list[tuple[str, Location | None]] = []
        """The blocks inside it whose end has work to do, so that no thread may leave them early; with their places."""
        self.executing: Threads | None = None
        """The threads of the CTA that are in it, where they are known."""

    def describe(self) -> str:
        """What diagnostics call it, with its place."""
        return f"the {self.kind} block at {self.location}" if self.location else f"a {self.kind} block"


class Asked:
    """The with-blocks that were asked for and not entered yet, each with its call and place."""

    def __init__(self) -> None:
        self.waiting: dict[object, tuple[str, Location | None]] = {}


class _Block(AbstractContextManager[Yielded]):
    """A block that leaves the waiting ones when it is entered."""

    __slots__ = ("_asked", "_inside")

    def __init__(self, inside: AbstractContextManager[Yielded], asked: Asked, call: str) -> None:
        self._inside = inside
        self._asked = asked
        asked.waiting[self] = (call, caller_location())

    def __enter__(self) -> Yielded:
        self._asked.waiting.pop(self, None)
        return self._inside.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._inside.__exit__(kind, error, traceback)


def with_block(
    function: Callable[Concatenate[Owner, Given], Iterator[Yielded]],
) -> Callable[Concatenate[Owner, Given], AbstractContextManager[Yielded]]:
    """`contextlib.contextmanager` for the builder's calls: one that is never entered is found when the kernel ends.

    The method's owner is the builder, or has it as `_k`.
    """
    make = contextmanager(function)

    @functools.wraps(function)
    def call(self: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> AbstractContextManager[Yielded]:
        builder: Any = getattr(self, "_k", self)
        return _Block(make(self, *args, **kwargs), builder._asked, function.__name__)

    return call
