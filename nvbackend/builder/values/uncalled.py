"""Calls that give a value, such as k.thread_id(), and what they are without their parentheses: nothing to compute with.

A bound method of Python's is not equal to 0, so `with k.if_(k.thread_id == 0):` would be `with k.if_(False):`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from nvbackend.builder.scopes.rules import NOT_A_VALUE
from nvbackend.builder.values.attributes import ATTRIBUTE
from nvbackend.diagnostics import MissingAttribute, user_facing


class Uncalled(functools.partial[Any]):
    """A method that a program calls by the name `written`: in a comparison, a sum or a condition it is refused."""

    written: str

    def __repr__(self) -> str:
        return self.written

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(self.func)
        return signature.replace(parameters=[*signature.parameters.values()][1:])

    if not TYPE_CHECKING:  # a type checker refuses every operator of a method by itself

        def __getattr__(self, name: str) -> NoReturn:
            """Raises value.attribute, as values do."""
            if name.startswith("_"):
                raise AttributeError(f"{self.written} has no attribute {name!r}", name=name, obj=self)
            is_axis = name in ("x", "y", "z") and "axis" in self.__signature__.parameters
            advice = f'call it with the axis: {self.written}("{name}")' if is_axis else self.advice
            owner = f"{self.written}, which is a call,"
            raise MissingAttribute([ATTRIBUTE.diagnose(owner=owner, name=f".{name}", advice=advice)])

        def __bool__(self, *_: object) -> NoReturn:  # noqa: PLE0304
            """Raises value.kind, as every operator does."""
            NOT_A_VALUE.fail(given=self, kind="a run-time value", advice=self.advice)

        def __eq__(self, other: object) -> bool:
            """Of functions, whether they are one object. Raises value.kind for numbers and values."""
            return self is other if callable(other) and not isinstance(other, Uncalled) else self.__bool__()

        def __ne__(self, other: object) -> bool:
            return not self == other

        __index__ = __int__ = __float__ = __bool__
        __lt__ = __le__ = __gt__ = __ge__ = __bool__
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __bool__
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __bool__
        __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __bool__
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = __invert__ = __bool__
        __hash__ = object.__hash__

    @property
    def advice(self) -> str:
        """The fix, wherever it is given for a value."""
        return f"call it: {self.written}()"


user_facing(Uncalled)


def told_apart(owner: object, written: str, names: Iterable[str]) -> None:
    """Let `names`, the calls of `owner` that give a value, say so where a program forgets to call them."""
    for name in names:
        method = Uncalled(getattr(type(owner), name), owner)
        method.written = f"{written}.{name}"
        object.__setattr__(owner, name, method)
