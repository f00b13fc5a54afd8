"""Names that will go: they work as before, and warn at the user's line until the release that leaves them out.

docs/stability.md says what is promised; tests hold every deprecation to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from nvbackend.diagnostics.announce import DiagnosticWarning, warn
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.diagnostics.classes.dataclass import dataclass

Call = TypeVar("Call", bound=Callable[..., Any])
_MARK = "__deprecation__"
"""The attribute of a deprecated call that holds its `Deprecation`."""


class DeprecatedWarning(DiagnosticWarning, DeprecationWarning):
    """The category of a call or an argument that a later release removes; the text says what to write instead."""

    __module__ = __name__.partition(".")[0]


@dataclass(frozen=True)
class Deprecation:
    """What goes: `name` since a release, what to write `instead`, and the release that leaves it out."""

    name: str
    instead: str
    since: str
    removed: str

    def __str__(self) -> str:
        return f"{self.name} is deprecated since {self.since} and goes in {self.removed}: use {self.instead}"

    def warn(self) -> None:
        """Warn at the user's line."""
        warn(str(self), DeprecatedWarning)


def deprecated(name: str, *, instead: str, since: str, removed: str) -> Callable[[Call], Call]:
    """For a call that goes: `name` is how a user writes it."""
    deprecation = Deprecation(name, instead, since, removed)

    def decorate(call: Call) -> Call:
        @functools.wraps(call)
        def warned(*args: Any, **kwargs: Any) -> Any:
            deprecation.warn()
            return call(*args, **kwargs)

        setattr(warned, _MARK, (deprecation,))
        return cast("Call", warned)

    return decorate


def renamed(old: str, new: str, *, since: str, removed: str) -> Callable[[Call], Call]:
    """For a call whose argument `old` is called `new` now: both are taken, but not together."""

    def decorate(call: Call) -> Call:
        deprecation = Deprecation(f"{old}= of {call.__name__}", f"{new}=", since, removed)

        @functools.wraps(call)
        def warned(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                if new in kwargs:
                    problem = f"got both {new}= and {old}=, which it was called before"
                    ARGUMENT.fail(call=call.__name__, problem=problem, advice=f"pass {new}= alone")
                deprecation.warn()
                kwargs[new] = kwargs.pop(old)
            return call(*args, **kwargs)

        setattr(warned, _MARK, (*deprecations_of(call), deprecation))
        return cast("Call", warned)

    return decorate


def deprecations_of(call: object) -> tuple[Deprecation, ...]:
    """What of a call goes."""
    marked: tuple[Deprecation, ...] = getattr(call, _MARK, ())
    return marked
