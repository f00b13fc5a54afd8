"""Blocks of a kernel: which with-block was asked for and never opened, and that nothing follows the end of a block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from llvmlite import ir

from nvbackend.diagnostics import Location, caller_location

Owner = TypeVar("Owner")
Given = ParamSpec("Given")
Yielded = TypeVar("Yielded")


class LiveBuilder(ir.IRBuilder):  # type: ignore[misc]
    """An IRBuilder that asks `check_live` before it would add an instruction after the end of a block.

    A caller may catch the diagnostic of a call after an exit; nothing of that call may be left in the block.
    """

    def __init__(self, check_live: Callable[[], None]) -> None:
        super().__init__()
        self._check_live = check_live

    def _insert(self, instr: ir.Instruction) -> None:
        if self.block.is_terminated and self._anchor == len(self.block.instructions):
            self._check_live()
        super()._insert(instr)


def drop_unreachable(builder: ir.IRBuilder) -> None:
    """Take out what a call has emitted after the end of the block before it looked, in an owner's own IRBuilder."""
    block = builder.block
    if block is not None and block.is_terminated:
        del block.instructions[block.instructions.index(block.terminator) + 1 :]
        builder.position_at_end(block)


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
