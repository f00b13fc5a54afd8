"""What objects and modules hold, and how values that wrap others and descriptors are taken down, by their type."""

from __future__ import annotations

import builtins
import collections
import contextlib
import functools
import struct
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ForwardRef, Protocol

from nvbackend.builder.kernel.again.content import UnknownRead
from nvbackend.builder.kernel.again.pure_names import BY_NAME, NOT_FOLLOWED, PACKAGE, is_trusted
from nvbackend.diagnostics.arguments import MARK

_Slot = types.MemberDescriptorType
ALIASES = types.GenericAlias, type(Callable[[], None])
"""What `list[int]` and `Callable[[int], int]` are."""
HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: the class was made by a class statement, or by a C module in the same way."""


def builtins_of(module: dict[str, Any]) -> dict[str, Any]:
    """Where names are sought that the globals `module` do not have."""
    outside = module.get("__builtins__", builtins)
    return vars(outside) if isinstance(outside, types.ModuleType) else outside


def is_boundary(function: types.FunctionType) -> bool:
    """Whether it is a wrapper of this package around what a user calls."""
    members = vars(function)
    return MARK in members and "__wrapped__" in members and _is_of_package(function)


def name_of(module: types.ModuleType) -> str:
    """What a module says it is called: a program may have set or deleted that."""
    name = vars(module).get("__name__")
    return name if type(name) is str else ""


@functools.lru_cache(maxsize=256)
def slots_of(cls: type) -> tuple[_Slot, ...]:
    """The slots of objects of `cls`, which no class gets after it was made, without those of another name."""
    members = [(base, member) for base in cls.__mro__ for member in vars(base).values() if type(member) is _Slot]
    return tuple(member for base, member in members if member.__objclass__ is base)


def declares(cls: type, slot: _Slot) -> bool:
    """Whether the class statement of `cls` has made the slot, which a class of C has not."""
    declared = vars(cls).get("__slots__", ())
    names = (declared,) if isinstance(declared, str) else declared
    if isinstance(names, Iterator) or not isinstance(names, Iterable):
        return False
    private = slot.__name__.removeprefix(f"_{cls.__name__.lstrip('_')}")
    return slot.__name__ in names or private in names


def hides(cls: type, slots: int) -> bool:
    """Whether objects of `cls` hold more than their dictionary and slots: what a class of C keeps for itself."""
    pointers = slots + (cls.__dictoffset__ > 0) + (cls.__weakrefoffset__ > 0)
    return cls.__basicsize__ > object.__basicsize__ + pointers * struct.calcsize("P")


def attributes_of(value: object, slots: Iterable[_Slot]) -> Iterator[tuple[str, object]]:
    """What is in the object's dictionary and in its slots, by name."""
    with contextlib.suppress(AttributeError):
        yield from list(object.__getattribute__(value, "__dict__").items())
    for slot in slots:
        try:
            yield slot.__name__, slot.__get__(value, type(value))
        except AttributeError:
            yield slot.__name__, "not set"


def is_part(module: types.ModuleType, value: object) -> bool:
    """Whether one of our modules defines `value` itself, or imports it as a module: no program has set it."""
    if _top(name_of(module)) != PACKAGE:
        return False
    if isinstance(value, types.ModuleType):
        return _top(name_of(value)) == PACKAGE
    if isinstance(value, types.FunctionType):  # `functools.wraps` gives a function of the user's the name of ours
        return value.__module__ == module.__name__ and _is_of_package(value)
    return isinstance(value, type) and value.__module__ == module.__name__


def set_in(module: types.ModuleType) -> list[str]:
    """The names of functions, of classes and of plain values that a program may have set in a trusted module."""
    is_ours = _top(name_of(module)) == PACKAGE
    return [name for name, value in list(vars(module).items()) if _is_set(name, value, is_ours)]


def _is_set(name: str, value: Any, is_ours: bool) -> bool:
    if isinstance(value, types.FunctionType | type):
        top = _top(value.__module__ if isinstance(value, type) else value.__globals__.get("__name__"))
        return top != PACKAGE and top not in sys.stdlib_module_names
    return (
        not is_ours and type(value) in (int, float, str, bool) and not (name.startswith("__") and name.endswith("__"))
    )


def _is_of_package(function: types.FunctionType) -> bool:
    return _top(function.__globals__.get("__name__")) == PACKAGE


def _top(module: object) -> str:
    return str(module).partition(".")[0]


FIELD: type = type(vars(collections.namedtuple("_Pair", "a"))["a"])
"""What a named tuple's class has for each of its fields."""
PLAIN: dict[type, Callable[[Any], object]] = {int: int.__index__, float: float.__float__, str: str.__str__}
"""What reads the number or text that an object of a class below it is, whatever methods the class has."""
_MADE_BY_PYTHON = {"func", "attrname", "lock", "__doc__"}
"""What a cached property holds of its own."""


class Look(Protocol):
    """What takes values down."""

    content: list[object]

    def value(self, value: Any) -> None:
        """Take down `value`."""

    def items(self, values: Iterable[object]) -> None:
        """Take down several values and how many there are."""

    def mapping(self, values: dict[Any, Any]) -> None:
        """Take down names and values."""

    def identity(self, value: object) -> None:
        """Take down which object `value` is."""

    def of_c(self, module: str, name: str) -> None:
        """Make sure that what is of C is followed."""


def _partial(look: Look, value: functools.partial[Any]) -> None:
    look.value(value.func)
    look.value(value.args)
    look.mapping(value.keywords)
    look.mapping(vars(value))


def _wrapping(look: Look, value: Any) -> None:
    look.value(value.__func__)
    look.mapping(vars(value))


def _remembering(look: Look, value: Any) -> None:
    """A function that keeps its results: what it has kept may be of another time."""
    inside = value.__wrapped__
    if type(inside) is not types.FunctionType or not is_trusted(inside.__globals__.get("__name__")):
        raise UnknownRead(f"{getattr(inside, '__qualname__', inside)}, which keeps its results")
    look.value(inside)


def _cached(look: Look, value: functools.cached_property[Any]) -> None:
    look.items((value.func, value.attrname, value.__doc__))
    look.mapping({name: each for name, each in vars(value).items() if name not in _MADE_BY_PYTHON})


def _slot(look: Look, value: types.MemberDescriptorType) -> None:
    _named(value.__name__)
    look.content.append(value.__name__)
    look.identity(value.__objclass__)


def _field(look: Look, value: Any) -> None:
    place, text = value.__reduce__()[1]
    look.content.append(place)
    look.value(text)


def _method_of_c(look: Look, value: Any) -> None:
    """A method of a class of Python's own, or a method that Python made of what such a class does."""
    _named(value.__name__)
    if value.__name__ in BY_NAME:
        look.of_c("builtins", value.__name__)
    look.of_c(value.__objclass__.__module__, value.__objclass__.__name__)
    look.identity(value)


def _named(name: str) -> None:
    if name in NOT_FOLLOWED:
        raise UnknownRead(f"the attribute {name}")


WRAPPERS: dict[type, Callable[[Any, Any], None]] = {
    types.MethodType: lambda look, value: look.items((value.__func__, value.__self__)),
    **dict.fromkeys(
        ALIASES,
        lambda look, value: look.items((value.__origin__, value.__args__, getattr(value, "__unpacked__", False))),
    ),
    # What evaluates it is not followed, so that it is the text that it was made of.
    ForwardRef: lambda look, value: look.items((value.__forward_arg__, value.__forward_module__)),
    types.UnionType: lambda look, value: look.items(value.__args__),
    type(Annotated[int, 0]): lambda look, value: look.items((value.__origin__, *value.__metadata__)),
    functools.partial: _partial,
    type(functools.lru_cache(len)): _remembering,
    **dict.fromkeys((staticmethod, classmethod), _wrapping),
}
DESCRIPTORS: dict[type, Callable[[Any, Any], None]] = {
    property: lambda look, value: look.items((value.fget, value.fset, value.fdel, value.__doc__)),
    functools.cached_property: _cached,
    types.MemberDescriptorType: _slot,
    FIELD: _field,
    **dict.fromkeys(
        (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType), _method_of_c
    ),
}
