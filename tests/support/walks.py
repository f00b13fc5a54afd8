"""Walks through the package: the files whose functions take one thing, on its way through a call.

A function takes the thing where an argument is it, holds it, or is an LLVM value that is computed from it. The boundary
around public calls (`nvbackend.diagnostics`) takes everything and is left out.

    python -m tests.support.walks
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from llvmlite import ir

from tests.support.process import ROOT

PACKAGE = f"{ROOT / 'nvbackend'}/"
BOUNDARY = "diagnostics/"
HELD = ("SharedTile", "Address", "Value", "TensorMapParameter")
"""What a thing is made of before its walk begins, besides LLVM values."""
OPAQUE = (int, float, str, bytes, type(None), type, FunctionType, MethodType, BuiltinFunctionType, ModuleType, CodeType)
DEPTH = 4


def parts(thing: object) -> list[Any]:
    """The values of an object's attributes."""
    values = []
    with contextlib.suppress(AttributeError):
        values += object.__getattribute__(thing, "__dict__").values()
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            try:
                values.append(object.__getattribute__(thing, name))
            except AttributeError:
                continue
    return values


def arguments(frame: FrameType) -> Iterator[object]:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return (frame.f_locals[name] for name in code.co_varnames[:count] if name in frame.f_locals)


@dataclass(eq=False)
class Walk:
    """The first call of `name` in `file` whose frame `choose` takes the thing from, up to the call of `last`."""

    file: str
    name: str
    choose: Callable[[Mapping[str, Any]], object]
    last: str = ""
    calls: dict[tuple[str, str], None] = field(default_factory=dict)
    """The functions that take the thing, by file and name, in the order of their first calls."""
    _start: FrameType | None = None
    _is_over: bool = False
    _things: dict[int, object] = field(default_factory=dict)
    _before: list[object] = field(default_factory=list)
    _old: set[int] = field(default_factory=set)

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(file for file, _ in self.calls))

    def called(self, frame: FrameType, file: str) -> None:
        name = frame.f_code.co_qualname
        if self._is_over:
            return
        if self._start is None:
            thing = self.choose(frame.f_locals) if (file, name) == (self.file, self.name) else None
            if thing is None:
                return
            self._start, self._before = frame, gc.get_objects()  # kept, so that no new object has the id of an old one
            self._old = {id(each) for each in self._before}
            self._seed(thing)
        if name == self.last:
            self._end()
        elif not file.startswith(BOUNDARY) and any(self._holds(each) for each in arguments(frame)):
            self.calls.setdefault((file, name))

    def returned(self, frame: FrameType) -> None:
        if frame is self._start:
            self._end()

    def _end(self) -> None:
        self._is_over, self._before, self._things = True, [], {}

    def _seed(self, thing: object) -> None:
        self._things[id(thing)] = thing
        for part in parts(thing):
            if isinstance(part, ir.Instruction | ir.GlobalVariable | ir.Argument):
                self._things[id(part)] = part
            elif type(part).__name__ in HELD and id(part) not in self._things:
                self._seed(part)

    def _holds(self, value: object, depth: int = DEPTH) -> bool:
        if id(value) in self._things:
            return True
        if not depth or isinstance(value, OPAQUE):
            return False
        inside: Iterable[object] = ()
        if isinstance(value, Mapping):
            inside = list(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            inside = list(value)
        elif id(value) in self._old:
            return False
        elif isinstance(value, ir.Instruction):
            inside = getattr(value, "operands", ())
        elif type(value).__module__.startswith("nvbackend"):
            inside = parts(value)
        held = any(self._holds(each, depth if isinstance(value, ir.Value) else depth - 1) for each in inside)
        if held and not isinstance(value, list | dict | set):  # which may come to hold other things
            self._things[id(value)] = value
        return held


def follow(walks: Iterable[Walk], function: Callable[[], object]) -> None:
    """Call `function` and record the walks in it."""
    walks = list(walks)

    def note(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "return") and frame.f_code.co_filename.startswith(PACKAGE):
            for walk in walks:
                if event == "call":
                    walk.called(frame, frame.f_code.co_filename[len(PACKAGE) :])
                else:
                    walk.returned(frame)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)


def opcode(text: str) -> Callable[[Mapping[str, Any]], object]:
    return lambda frame: frame["row"] if text in frame["row"].opcode else None


WALKS = {
    "an operand of accumulate to the asm text": Walk(
        "builder/tiles/mma/wgmma.py", "TiledWgmma.accumulate", lambda frame: frame["b"], "_unpack"
    ),
    "the row of an mma through emit": Walk("builder/core/core.py", "Core.emit", opcode("mma_async")),
    "the row of a TMA load through emit": Walk("builder/core/core.py", "Core.emit", opcode("tensor")),
    "a request through select": Walk("isel/select/wgmma/select.py", "select_wgmma", lambda frame: frame["request"]),
    "the source of a TMA load": Walk("builder/ops/copy/tma.py", "Tma.load", lambda frame: frame["source"]),
}


def main() -> None:
    from samples import hopper_gemm

    follow(WALKS.values(), hopper_gemm.gemm.build)
    for title, walk in WALKS.items():
        sys.stdout.write(f"{title}: {len(walk.files)} files\n")
        sys.stdout.writelines(f"    {file}\n" for file in walk.files)


if __name__ == "__main__":
    main()
