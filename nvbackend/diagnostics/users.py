"""What the user has: the line that runs, for languages that keep it, and functions that are passed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NoReturn, TypeVar

from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.diagnostics.boundary import is_inside_libraries, user_facing
from nvbackend.diagnostics.diagnostic import DiagnosticError, printed, with_article
from nvbackend.diagnostics.location import Location, caller_location, error_location

_Result = TypeVar("_Result")
_NONE: Mapping[str, Any] = {}


@user_facing
def user_line() -> Location:
    """The line of the user's program that is running; lines of packages marked as plumbing are skipped.

    A language keeps it with what the user made there: for `at` of a rule's `fail`, and `k.location(line)`.
    """
    return caller_location() or Location("<unknown>", 1, "")


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names of the parameters of a user's function; None for one of Python's own that does not tell them."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def functions_in(function: Callable[..., Any]) -> list[FunctionType]:
    """The functions of Python among `function` and what decorators have wrapped by it (functools.wraps), outermost
    first. The last one is what the user wrote, whose parameters `inspect.signature` has."""
    functions: list[FunctionType] = []
    seen: set[int] = set()
    inside: Any = function
    while inside is not None and id(inside) not in seen:
        seen.add(id(inside))
        own = getattr(inside, "__func__", inside)
        if isinstance(own, FunctionType):
            functions.append(own)
        inside = getattr(inside, "__wrapped__", None)
    return functions


def run_callback(
    call: str,
    function: Callable[..., _Result],
    *arguments: Any,
    by_name: Mapping[str, Any] = _NONE,
    gives: tuple[type, ...] = (),
) -> _Result:
    """What `function`, which a user passed to `call`, gives: an object of a class of `gives`, if there are any.

    What the user's code raises leaves as it is, with the user's frames. call.argument is what Python raises before any
    of that code runs: the function takes another number of arguments, or is Python's own and does not take values. So
    is StopIteration, by which a loop of this package would end without a word.
    """
    try:
        result = function(*arguments, **by_name)
    except DiagnosticError:
        raise
    except StopIteration as error:
        _refuse(call, function, "raises StopIteration", "let it give a value at every call", error)
    except Exception as error:
        if not is_inside_libraries(error.__traceback__):
            raise
        count = f"{len(arguments) + len(by_name)} argument{'s' * (len(arguments) + len(by_name) != 1)}"
        problem = f"cannot be called with {count}: {type(error).__name__}: {error}"
        _refuse(call, function, problem, f"pass a lambda of {count} that calls what you mean", error)
    if gives and not isinstance(result, gives):
        advice = f"pass a function that gives {with_article(gives[0].__name__)}"
        _refuse(call, function, f"gives {printed(result)}", advice)
    return result


def _refuse(call: str, function: object, problem: str, advice: str, error: Exception | None = None) -> NoReturn:
    name = getattr(function, "__qualname__", None) or printed(function)
    at = error_location(error) if error else None
    raise DiagnosticError([ARGUMENT.diagnose(at=at, call=call, problem=f"{name} {problem}", advice=advice)]) from None
