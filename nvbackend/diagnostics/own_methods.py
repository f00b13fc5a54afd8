"""Arguments with methods that raise: what Python calls of an object, such as its `__eq__`, is the user's code."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FrameType

from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.diagnostics.diagnostic import Diagnostic
from nvbackend.diagnostics.location import is_plumbing

_OF_THE_PROGRAM = ("__call__", "__enter__", "__exit__", "__init__", "__new__")
"""Methods that do what the program is for: their exceptions are the program's."""


def raising_method(error: Exception, call: str, frames: list[FrameType]) -> Diagnostic | None:
    """The diagnostic of an exception from a method of an object that this package asked for its text, truth or length.

    `frames` are those of the exception without libraries: the first is of this package, where it was caught. `call` is
    the name of what was called. None for another one.
    """
    if is_plumbing(frames[-1]) or not is_plumbing(frames[-2]):
        return None
    code = frames[-1].f_code
    owner = frames[-1].f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    method = next(_names_of(code, type(owner)), "")
    if not method:
        return None
    name = type(owner).__name__
    return ARGUMENT.diagnose(
        call=call,
        problem=f"{name}.{method} of an argument raises {type(error).__name__}",
        advice=f"pass something else, or correct {name}.{method}",
    )


def _names_of(code: CodeType, kind: type) -> Iterator[str]:
    """The names of a method that Python's own types have: one of two underscores, or one that the class overrides."""
    bases = type.mro(kind)
    ours = [base for base in bases if base.__module__ != "builtins"]
    builtin = [base for base in bases if base.__module__ == "builtins"]
    for base in ours:
        for name, member in vars(base).items():
            is_asked = name.startswith("__") or any(name in vars(each) for each in builtin)
            if is_asked and name not in _OF_THE_PROGRAM and _code_of(member) is code:
                yield name


def _code_of(member: object) -> CodeType | None:
    function = member.fget if type(member) is property else member
    code = getattr(function, "__code__", None)
    return code if type(code) is CodeType else None
