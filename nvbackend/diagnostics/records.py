"""Public records: dataclasses whose arguments are compared with their annotations when a user makes one."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from types import FrameType, FunctionType
from typing import Any, TypeVar

from nvbackend.diagnostics.arguments import MARK, as_tuples, truth_values, was_compared, wrong_arguments, wrong_entries
from nvbackend.diagnostics.boundary import around, cut, plain_numbers, refuse, refuse_changes, refuse_method
from nvbackend.diagnostics.classes.late_method import LateMethod
from nvbackend.diagnostics.diagnostic import DiagnosticError
from nvbackend.diagnostics.location import is_plumbing

_Class = TypeVar("_Class", bound=type[Any])
_Call = Callable[..., Any]
_DEEPEST_LOOK = 16
"""Tuples in tuples, deeper than these, are compared each time."""
_MOST_LOOKS = 1024


def record(decorated: _Class) -> _Class:
    """Decorator of a public dataclass, above `dataclass`: a user's arguments of other kinds raise call.argument.

    A record keeps what it is given, so a wrong argument would be found much later. A list becomes a tuple where only a
    tuple is taken. What this package makes is not compared, which keeps it quick. Methods are boundaries, as those of
    `user_facing` are, without its check of every argument; properties are not.
    """
    for name, member in list(vars(decorated).items()):
        if isinstance(member, LateMethod):
            if name == "__init__":
                setattr(decorated, name, member.then(_checked))
            continue
        inside = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if isinstance(inside, FunctionType) and (name == "__init__" or not name.startswith("_")):
            wrapped = _checked(inside) if name == "__init__" else _light(inside)
            setattr(decorated, name, wrapped if inside is member else type(member)(wrapped))
    refuse_changes(decorated)
    return decorated


def _checked(function: FunctionType) -> _Call:
    """The constructor, whose arguments are compared before it runs where a user calls it.

    Of calls whose arguments look alike, one is compared.
    """
    fitting: set[Hashable] = set()

    def boundary(*args: Any, **kwargs: Any) -> None:
        try:
            try:
                if not _is_called_by_us(sys._getframe(1)):
                    look = _looks(args[1:]), tuple(kwargs), _looks(kwargs.values())
                    if look not in fitting:
                        args, kwargs = _check(function, args, kwargs)
                        if None not in look and len(fitting) < _MOST_LOOKS:
                            fitting.add(look)
                function(*args, **kwargs)
            except Exception as error:
                refuse_method(error, function, args)
                raise
        except DiagnosticError as error:
            cut(error)
            raise

    return _marked(around(boundary, function))


def _looks(arguments: Iterable[Any], depth: int = 0) -> tuple[Hashable, ...] | None:
    """What the comparison of arguments depends on: their classes, and the length of what has one.

    None where it depends on more. Arguments of equal looks all fit their annotations, or none does, where they are not
    compared `again`.
    """
    each: list[Hashable] = []
    for argument in arguments:
        kind: Any = type(argument)
        look: Hashable = kind
        if kind is int:
            look = 1 if argument in (0, 1) else 2  # those that count as truth values, and others
        elif kind is str:
            look = (kind, len(argument))
        elif kind is tuple:
            inside = _looks(argument, depth + 1) if depth < _DEEPEST_LOOK else None
            if inside is None:
                return None
            look = inside
        elif not _is_all_said_by_class(kind):
            return None
        each.append(look)
    return tuple(each)


@functools.lru_cache(1024)
def _is_all_said_by_class(kind: Any) -> bool:
    """Whether all objects of a class fit the same annotations."""
    if kind in (bool, float, type(None)) or issubclass(kind, enum.Enum):
        return True
    return hasattr(kind, "__dataclass_params__") and bool(was_compared(kind))


def _check(
    function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with plain numbers and tuples. Raises call.argument."""
    args, kwargs = plain_numbers(args), dict(zip(kwargs, plain_numbers(tuple(kwargs.values())), strict=True))
    args, kwargs = as_tuples(function, args, kwargs)
    call = function, args, kwargs
    faults = wrong_arguments(*call, again=False)
    with suppress(TypeError):  # too few or too many arguments
        faults += [*truth_values(*call), *wrong_entries(*call)]
    if faults:
        raise DiagnosticError(faults)
    return args, kwargs


def _light(function: FunctionType) -> _Call:
    """A method, whose arguments are looked at once it has failed."""

    def boundary(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                refuse(error, function, args, kwargs)
                raise
        except DiagnosticError as error:
            cut(error)
            raise

    return _marked(around(boundary, function))


def _marked(boundary: _Call) -> _Call:
    setattr(boundary, MARK, True)
    return boundary


def _is_called_by_us(frame: FrameType) -> bool:
    """Whether this package makes the record, also as a changed copy of another."""
    while frame.f_globals.get("__name__") == dataclasses.__name__:
        assert frame.f_back is not None, "dataclasses is called"
        frame = frame.f_back
    return is_plumbing(frame)
