"""Methods of classes that are made at their first use: a fresh process uses few of those that it imports."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_MAKING = threading.RLock()
_Method = Callable[..., Any]


class LateMethod:
    """A method of a class that is made when it is first asked for, and takes this one's place then."""

    __slots__ = ("made", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.made: _Method | None = None
        """The method, after its first use."""

    def make(self) -> _Method:
        """The method; asked for once."""
        raise NotImplementedError

    def method(self) -> _Method:
        """The method, made now if this is its first use."""
        with _MAKING:
            if self.made is None:
                self.made = self.make()
            return self.made

    def __get__(self, thing: object, owner: type) -> Any:
        method: Any = self.method()
        for cls in owner.__mro__:
            if vars(cls).get(self.name) is self:
                setattr(cls, self.name, method)
        return method.__get__(thing, owner)

    def then(self, decorate: Callable[[Any], Any]) -> LateMethod:
        """The method that `decorate` makes of it."""
        return _Decorated(self, decorate)


class _Decorated(LateMethod):
    __slots__ = ("_decorate", "_inside")

    def __init__(self, inside: LateMethod, decorate: Callable[[Any], Any]) -> None:
        super().__init__(inside.name)
        self._inside = inside
        self._decorate = decorate

    def make(self) -> _Method:
        made: _Method = self._decorate(self._inside.method())
        return made
