"""Where in the user's Python something was asked for."""

from __future__ import annotations

import functools
import linecache
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

_PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True, slots=True)
class Location:
    """A line of source: file, 1-based line number, and the function it stands in."""

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The text of the line, stripped; empty where the file can not be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller_location() -> Location | None:
    """The innermost frame outside this package, or None where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not _is_plumbing(code.co_filename):
            return Location(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return None


@functools.lru_cache(maxsize=None)
def _is_plumbing(file: str) -> bool:
    """Whether frames of `file` stand between the user's line and us: this package, and contextlib's with-blocks."""
    return os.path.abspath(file).startswith(_PACKAGE_ROOT) or file == _CONTEXTLIB


_CONTEXTLIB = sys.modules["contextlib"].__file__ if "contextlib" in sys.modules else ""


def user_facing(cls: _Class) -> _Class:
    """Class decorator: a diagnostic raised by a public method shows the user's frames and none of ours.

    Each public function (and `__enter__`, `__exit__`, the operators) is wrapped so that a DiagnosticError leaves it
    with a fresh traceback; any other exception keeps its own, since that one is a bug of ours and its inside matters.
    """
    for name, member in list(vars(cls).items()):
        if callable(member) and not isinstance(member, type) and (not name.startswith("_") or name in _DUNDERS):
            setattr(cls, name, _cut_traceback(member))
    return cls


_DUNDERS = frozenset(
    f"__{name}__"
    for name in (
        "add radd sub rsub mul rmul floordiv rfloordiv truediv rtruediv mod rmod and rand or ror xor rxor lshift rlshift "
        "rshift rrshift neg invert eq ne lt le gt ge iadd isub imul getitem setitem enter exit call bool iter"
    ).split()
)


def _cut_traceback(function: Callable[..., Any]) -> Callable[..., Any]:
    from nvbackend.diagnostics.diagnostic import DiagnosticError

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except DiagnosticError as error:
            raise error.with_traceback(None) from None

    return wrapper
