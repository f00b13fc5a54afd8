"""Places in the user's Python."""

from __future__ import annotations

import functools
import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from types import CodeType, FrameType, TracebackType
from typing import Any

from nvbackend.diagnostics.classes.dataclass import dataclass

_PACKAGE = __name__.partition(".")[0]
_SITE = "site-packages"
_GO_BETWEENS = frozenset({"contextlib", "functools", "typing"})
"""Standard modules whose frames come between the user's line and ours: with-blocks, partial calls, generic aliases."""
_MOST_CALLERS = 256
"""How many pieces of code a place remembers that asks for its callers."""
_LLVMLITE = "llvmlite"
"""Where an IRBuilder of the user's calls into this package, and this package into llvmlite's."""
MARK_OF_ENTRANCE = "RUNS_THE_USERS_FUNCTION"
"""The global of a module of this package that runs a user's function: callers of that module do not matter."""

MARK_OF_PLUMBING = "__nvbackend_plumbing__"
"""The global by which a package or module of a compiler says that its lines are not its user's."""
_PLACES: ContextVar[tuple[Location, ...]] = ContextVar("places", default=())
"""The places that the code which is running was said to come from, innermost first."""

_UNKNOWN, _PASSED, _PASSED_INSTALLED, _ENTRANCE, _USERS, _INSTALLED, _PYTHONS, _COMPILERS = range(8)
"""Whose a frame is: not looked at; between the user's, also in an installed package; who runs the user's function; the
user's; of an installed package, of Python's library, or of a compiler that says that its lines are not its user's."""
_Line = tuple[str, int, str]
"""A file, the number of a line, and its function."""
_Call = tuple[FrameType, TracebackType | None]
"""A frame, and the entry of a traceback that says where it is, None for one that runs. To ask for a line is slow."""


def source_lines(file: str) -> list[str]:
    """The lines of a file of Python; none where it cannot be read."""
    try:
        return linecache.getlines(file)
    except ValueError:  # no file has such a name: one with a null, or with half of a surrogate pair
        return []


@dataclass(frozen=True, slots=True)
class Location:
    """A line of source: file, 1-based line number, and its function.

    `callers` are the user's lines by which it was reached, innermost first; callers do not count in comparisons.
    """

    file: str
    line: int
    function: str
    callers: tuple[Location, ...] = field(default=(), compare=False)
    column: int = field(default=0, compare=False)
    """From 1; 0 where it is not known."""

    @property
    def source(self) -> str:
        """The text of the line, stripped; empty where the file cannot be read."""
        lines = source_lines(self.file)
        return lines[self.line - 1].strip() if 0 < self.line <= len(lines) else ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")


@dataclass(frozen=True, slots=True)
class StatedLocation(Location):
    """A place that a compiler gives in the source of its own language; it may have no function."""

    def __str__(self) -> str:
        place = Location.__str__(self)
        return f"{place} in {self.function}" if self.function else place


@contextmanager
def placed(*places: Location) -> Iterator[None]:
    """Inside, the user's line is the first of `places`, which the others call; without any, it is a line of Python."""
    before = _PLACES.set(places)
    try:
        yield
    finally:
        _PLACES.reset(before)


def stated_places() -> tuple[Location, ...]:
    """The places of the innermost `placed`."""
    return _PLACES.get()


def caller_location() -> Location | None:
    """The innermost line of the user's, or None (this package run as a program)."""
    return _located(_calls_from(sys._getframe(1)), _PLACES.get(), passes_compilers=True)


def caller_frame(*, passes_compilers: bool = True) -> FrameType | None:
    """The frame of the user's innermost line, for code that runs too often to collect callers.

    Frames of packages that say that they are plumbing are passed, if there is a user's beyond them.
    """
    frame: FrameType | None = sys._getframe(1)
    of_compiler = None
    while frame is not None:
        name = frame.f_globals.get("__name__")
        passed = type(name) is str and _is_passed_name(name)  # not is_plumbing: a call a frame would double the time
        if not passed and not _is_pythons(frame.f_code.co_filename):
            if not (passes_compilers and is_of_compiler(frame.f_globals)):
                return frame
            of_compiler = of_compiler or frame
        frame = frame.f_back
    return of_compiler


class CallerFrames:
    """`caller_frame` for one place that asks again and again: a caller that was found before is known by its code."""

    __slots__ = ("_is_users",)

    def __init__(self) -> None:
        self._is_users: dict[int, tuple[bool, CodeType]] = {}
        """By the id of a frame's code, which is kept: another's would be the same after it."""

    def caller(self) -> FrameType | None:
        """The frame of the user's innermost line."""
        frame: FrameType | None = sys._getframe(1)
        known = self._is_users
        while frame is not None:
            seen = known.get(id(frame.f_code))
            if seen is None:
                return self._found()
            if seen[0]:
                return frame
            frame = frame.f_back
        return None

    def _found(self) -> FrameType | None:
        """What `caller_frame` says, kept where no more than this package's frames and the like are passed."""
        caller = caller_frame()
        passed: list[CodeType] = []
        frame = sys._getframe(1)
        while frame is not caller:
            if frame.f_back is None or not is_plumbing(frame):
                return caller
            passed.append(frame.f_code)
            frame = frame.f_back
        if not is_of_compiler(frame.f_globals):
            if len(self._is_users) >= _MOST_CALLERS:
                self._is_users.clear()
            self._is_users[id(frame.f_code)] = True, frame.f_code
            self._is_users.update((id(code), (False, code)) for code in passed)
        return caller


class CallerChain:
    """The user's frames that are running, for one place that asks again and again: whose code it is is kept."""

    __slots__ = ("_codes", "_kinds", "_locations")

    def __init__(self) -> None:
        self._kinds: dict[int, int] = {}
        """By the id of a frame's code."""
        self._codes: list[CodeType] = []
        """The codes, which are kept: another's id would be the same after one."""
        self._locations: dict[tuple[int, ...], Location] = {}
        """By the ids of the codes of the user's frames, each with its place in it."""

    def location(self) -> Location | None:
        """What `caller_location` gives."""
        if _PLACES.get():
            return caller_location()
        lines: list[FrameType] = []
        of_compilers: list[FrameType] = []
        kinds = self._kinds
        in_users_program = False
        frame = self._inmost()
        while frame is not None:
            kind = kinds.get(id(frame.f_code), _UNKNOWN) or self._kind(frame)
            if kind <= _ENTRANCE:
                if (in_users_program and kind != _PASSED) or (kind == _ENTRANCE and lines):
                    break
            elif kind == _USERS:
                in_users_program = True
                lines.append(frame)
            elif kind == _COMPILERS:
                of_compilers.append(frame)
            elif in_users_program:
                break
            elif lines or kind != _PYTHONS:
                lines.append(frame)
            frame = frame.f_back
        return self._location(lines or of_compilers)

    def _location(self, frames: list[FrameType]) -> Location | None:
        if not frames:
            return None
        location = self._locations.get(steps := steps_of(frames))
        if location is None:
            location = self._locations[steps] = _location(*[_line(frame, None) for frame in frames])
        return location

    def frames(self) -> list[FrameType]:
        """Those whose lines `caller_location` gives, innermost first; empty if only this package is running."""
        kinds = self._kinds
        of_compiler = None
        frame = self._inmost()
        while frame is not None:
            kind = kinds.get(id(frame.f_code), _UNKNOWN) or self._kind(frame)
            if kind > _ENTRANCE:
                if kind in (_USERS, _INSTALLED):
                    break
                if kind == _COMPILERS:
                    of_compiler = of_compiler or frame
            frame = frame.f_back
        frame = frame or of_compiler
        if frame is None:
            return []
        users = [frame]
        in_users_program = not _is_installed(frame.f_code.co_filename)
        while (frame := frame.f_back) is not None:
            kind = kinds.get(id(frame.f_code), _UNKNOWN) or self._kind(frame)
            if kind == _ENTRANCE or (kind in (_INSTALLED, _PYTHONS) and in_users_program):
                break
            if kind in (_USERS, _INSTALLED, _PYTHONS):
                users.append(frame)
                in_users_program = kind == _USERS
        return users

    def _inmost(self) -> FrameType | None:
        """The innermost frame, after this package's, that was not seen before or whose line counts."""
        kind = self._kinds.get
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and kind(id(frame.f_code), _USERS) <= _ENTRANCE:
            frame = frame.f_back
        return frame

    def _kind(self, frame: FrameType) -> int:
        module, code = frame.f_globals, frame.f_code
        if _is_passed_by(module):
            is_installed = _is_installed(code.co_filename)
            kind = _ENTRANCE if MARK_OF_ENTRANCE in module else _PASSED_INSTALLED if is_installed else _PASSED
        elif is_of_compiler(module):
            kind = _COMPILERS
        elif _is_pythons(code.co_filename):
            kind = _PYTHONS
        else:
            kind = _INSTALLED if _is_installed(code.co_filename) else _USERS
        self._codes.append(code)
        self._kinds[id(code)] = kind
        return kind


def steps_of(frames: Iterable[FrameType]) -> tuple[int, ...]:
    """The ids of the codes of frames, each with its place in it: to ask a frame for its line is slow."""
    steps: list[int] = []
    for frame in frames:
        steps += id(frame.f_code), frame.f_lasti
    return tuple(steps)


def caller_line() -> Location | None:
    """The innermost line of the user's without its callers, for what is asked too often to collect them."""
    places = _PLACES.get()
    if places:
        return places[0]
    frame = caller_frame()
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def error_location(error: BaseException) -> Location | None:
    """The user's line that raised `error` itself; None if it came from inside this package."""
    calls: list[_Call] = []
    trace = error.__traceback__
    while trace is not None:
        calls.append((trace.tb_frame, trace))
        trace = trace.tb_next
    return _located(reversed(calls)) if calls and not _is_ours(calls[-1][0].f_globals) else None


def _calls_from(frame: FrameType | None) -> Iterator[_Call]:
    while frame is not None:
        yield frame, None
        frame = frame.f_back


def _located(
    calls: Iterable[_Call], places: tuple[Location, ...] = (), *, passes_compilers: bool = False
) -> Location | None:
    """The user's innermost line with its callers, of calls that are given innermost first and made at `places`.

    What started the user's program is left out: the test runner, the notebook, and who asked for the kernel. Lines of
    packages that say that they are plumbing count only where there are no others.
    """
    lines, of_compilers = list[_Line](), list[_Line]()
    in_users_program = False
    for frame, trace in calls:
        file, module = frame.f_code.co_filename, frame.f_globals
        if _is_passed_by(module):
            entrance = (lines or places) and MARK_OF_ENTRANCE in module
            if entrance or (in_users_program and _is_installed(file)):
                break
            continue
        if passes_compilers and is_of_compiler(module):
            of_compilers.append(_line(frame, trace))
            continue
        installed = _is_installed(file)
        if installed and in_users_program:
            break
        if not lines and _is_pythons(file):
            continue
        in_users_program = not installed
        lines.append(_line(frame, trace))
    if not places:
        lines = lines or of_compilers
        return _location(*lines) if lines else None
    return replace(places[0], callers=(*places[1:], *(Location(*line) for line in lines)))


def _line(frame: FrameType, trace: TracebackType | None) -> _Line:
    return frame.f_code.co_filename, frame.f_lineno if trace is None else trace.tb_lineno, frame.f_code.co_name


@functools.lru_cache(maxsize=4096)
def _location(first: _Line, *callers: _Line) -> Location:
    """A line with its callers: many instructions are of one."""
    return Location(*first, callers=tuple(Location(*line) for line in callers))


def is_of_compiler(module: dict[str, Any]) -> bool:
    """Whether the module, or else the innermost package around it that says anything, says that it is plumbing."""
    if MARK_OF_PLUMBING in module:
        return module[MARK_OF_PLUMBING] is True
    name = module.get("__name__")
    for package in _packages(name) if type(name) is str else ():
        names = getattr(sys.modules.get(package), "__dict__", {})
        if MARK_OF_PLUMBING in names:
            return names[MARK_OF_PLUMBING] is True
    return False


@functools.lru_cache(maxsize=4096)
def _packages(module: str) -> tuple[str, ...]:
    """Those around a module, innermost first."""
    parts = module.split(".")[:-1]
    return tuple(".".join(parts[:count]) for count in range(len(parts), 0, -1))


@functools.cache
def _is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return _is_pythons(file) or not {_SITE, "dist-packages"}.isdisjoint(_parts(file))


@functools.cache
def _is_pythons(file: str) -> bool:
    """Whether a file belongs to Python's own library."""
    if file.startswith("<frozen "):
        return True
    library, parts = _parts(os.path.dirname(os.__file__)), _parts(file)
    return parts[: len(library)] == library and _SITE not in parts


def _parts(path: str) -> list[str]:
    """Those of a path, as pathlib has them, which takes fifty times as long: the first is empty for an absolute one."""
    first, *others = path.split(os.sep)
    return [first, *(part for part in others if part not in ("", os.curdir))]


def is_plumbing(frame: FrameType) -> bool:
    """Whether `frame` belongs to this package, to llvmlite, or to a go-between of the standard library.

    Decided by the module's name, not by the file: the methods that dataclasses generate have no file, and a package
    reached through a link has two.
    """
    return _is_passed_by(frame.f_globals)


def _is_passed_by(module: dict[str, Any]) -> bool:
    name = module.get("__name__")
    return type(name) is str and _is_passed_name(name)


def _is_ours(module: dict[str, Any]) -> bool:
    name = module.get("__name__")
    return type(name) is str and name.partition(".")[0] != _LLVMLITE and _is_passed_name(name)


@functools.lru_cache(maxsize=4096)
def _is_passed_name(module: str) -> bool:
    return module in _GO_BETWEENS or module.partition(".")[0] in (_PACKAGE, _LLVMLITE)
