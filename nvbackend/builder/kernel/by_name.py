"""Copies and pickles of what a decorator makes of a function: a pickle names the function, as Python's own does."""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any, SupportsIndex, TypeVar

from nvbackend.diagnostics import Rule, printed, user_facing, with_article

PICKLE = Rule(
    id="call.pickle",
    message="{owner} has no pickle: {problem}",
    fix="define {function} at the top level of a module, under its own name; or build it here, and pickle what build() "
    "or compile() returns",
    why="A pickle has no code: it names what the process that reads it imports.",
    reference="Python Standard Library, pickle (What can be pickled and unpickled?)",
)

_Itself = TypeVar("_Itself", bound="ByName")


class ByName:
    """What a decorator makes of a function."""

    _function: Callable[..., Any]

    def _made_of(self) -> tuple[Any, ...]:
        """The arguments of its class: the function and the others."""
        raise NotImplementedError

    @user_facing
    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Its name where that names it; else what differs from what is there. Raises call.pickle."""
        function, mine = self._function, self._made_of()
        there = _named(function.__module__, function.__qualname__)
        if there is self:
            return function.__qualname__
        if there is function:
            return type(self), mine
        if not isinstance(there, type(self)) or there._function is not function:
            name = f"{function.__module__}.{function.__qualname__}"
            problem = f"{name} is {printed(there)}" if there is not None else f"nothing is called {name}"
            PICKLE.fail(owner=with_article(type(self).__name__), problem=problem, function=function.__name__)
        other = {place: mine[place] for place, theirs in enumerate(there._made_of()) if mine[place] is not theirs}
        return _restored, (function.__module__, function.__qualname__, other)

    def __copy__(self: _Itself) -> _Itself:
        return type(self)(*self._made_of())

    def __deepcopy__(self: _Itself, memo: dict[int, Any]) -> _Itself:
        return type(self)(*copy.deepcopy(self._made_of(), memo))


def _named(module: str, name: str) -> Any:
    """What has this qualified name in a module, or None."""
    return reduce(lambda owner, part: getattr(owner, part, None), name.split("."), sys.modules.get(module))


def _restored(module: str, name: str, other: dict[int, Any]) -> Any:
    """As what has this name, but for the arguments in `other`, by their places."""
    importlib.import_module(module)
    there = _named(module, name)
    return type(there)(*(other.get(place, its) for place, its in enumerate(there._made_of())))
