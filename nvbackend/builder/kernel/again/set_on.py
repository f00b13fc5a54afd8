"""What a program has set on classes of this package and of Python's library."""

from __future__ import annotations

import enum
import functools
import importlib
import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from nvbackend.builder.kernel.again.constants import ATOMS, PACKAGE
from nvbackend.builder.kernel.again.pure_names import NOT_SET, OF_EVERY_CLASS, is_trusted
from nvbackend.diagnostics.classes.late_method import LateMethod

_OF_BUILDING = tuple(f"{PACKAGE}.{part}" for part in ("annotations", "builder", "math", "signature", "tiled"))
_OF_COMPILING = f"{PACKAGE}.builder.kernel.definition"
_OF_LIBRARY = (
    *(types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType),
    *(types.ClassMethodDescriptorType, types.BuiltinFunctionType, re.Pattern, re.RegexFlag, enum.property),
)
"""What classes of the library have besides, which reads nothing that changes."""
_MADE_BY_LOOKING = {"__annotations__", "__annotations_cache__", "__slotnames__"}
"""Python makes the first two when they are read, empty where the class says nothing, and copyreg the third."""
_Seen = tuple[str, types.MappingProxyType[str, Any], dict[str, Any]]


def class_with_more() -> str:
    """A public class of ours, of those that kernels are built with, on which the program set something; "" if none."""
    for name, members, first in _first_seen(len(sys.modules)):
        if members != first and not _only_looked_at(members, first):
            if not first:  # it was not as it is written when it was first seen: it may be again
                _first_seen.cache_clear()
                _members.cache_clear()
            return name
    return ""


def _only_looked_at(members: types.MappingProxyType[str, Any], first: dict[str, Any]) -> bool:
    """Whether the class differs only in what is added when it is used or inspected; `first` has that from then on."""
    for name, member in first.items():
        if isinstance(member, LateMethod) and member.made is not None and members.get(name) is member.made:
            first[name] = members[name]
    apart = members.keys() ^ first.keys()
    annotations = {**first, **members}.get("__annotations__") if "__annotations__" in apart else None
    same = {name: member for name, member in members.items() if name not in apart}
    if not first or annotations or not apart <= _MADE_BY_LOOKING or same != {name: first[name] for name in same}:
        return False
    for name in apart & first.keys():
        del first[name]
    first.update(_copied({name: members[name] for name in apart & members.keys()}))
    return True


@functools.lru_cache(maxsize=4)
def _first_seen(_modules: int) -> tuple[_Seen, ...]:
    """The classes whose modules are imported, each with its members when it was first seen."""
    package: Any = importlib.import_module(PACKAGE)
    classes: dict[type, None] = {}
    for name, place in package._NAMES.items():
        if place in sys.modules and place.startswith(_OF_BUILDING) and place != _OF_COMPILING:
            cls = vars(sys.modules[place]).get(name)
            if isinstance(cls, type):
                classes.update(dict.fromkeys(base for base in cls.__mro__ if is_ours_by_name(base)))
    return tuple((cls.__qualname__, vars(cls), _members(cls)) for cls in classes)


def is_ours_by_name(cls: type) -> bool:
    """Whether it says that it is of this package."""
    return isinstance(cls.__module__, str) and cls.__module__.partition(".")[0] == PACKAGE


@functools.cache
def _members(cls: type) -> dict[str, Any]:
    """What the class has, empty if that is not what is written in this package."""
    members = _copied(vars(cls))
    fields = members.get("__annotations__", {})
    written = all(_is_written(cls, name in fields, name, member) for name, member in members.items())
    return members if written else {}


def _copied(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members, and of annotations, which a program may change, what they say now."""
    return {name: dict(member) if type(member) is dict else member for name, member in members.items()}


def _is_written(cls: type, is_field: bool, name: str, member: Any) -> bool:
    functions = list(_functions(member))
    if functions:
        return all(is_trusted(function.__globals__.get("__name__")) for function in functions)
    if isinstance(member, LateMethod):
        return True
    if isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType | types.WrapperDescriptorType):
        return True
    is_special = name.startswith("__") and name.endswith("__") and type(member) in ATOMS
    return is_field or is_special or issubclass(cls, enum.Enum) or name in OF_EVERY_CLASS or name in NOT_SET


def _functions(member: Any) -> Iterator[types.FunctionType]:
    """The functions in a member of a class."""
    if isinstance(member, property):
        parts: tuple[Any, ...] = (member.fget, member.fset, member.fdel)
    elif isinstance(member, functools.cached_property):
        parts = (member.func,)
    else:
        parts = (getattr(member, "__wrapped__", None),)
    for part in parts:
        if part is not None:
            yield from _functions(part)
    if isinstance(member, types.FunctionType):
        yield member


def set_on_library(cls: type) -> Iterator[tuple[str, Any]]:
    """What a program may have set on a class of Python's library: data, and functions from elsewhere.

    Of what is private to the library, plain values alone.
    """
    for name, member in list(vars(cls).items()):
        if isinstance(member, types.BuiltinFunctionType) and member.__name__ != name:
            yield name, f"{member.__module__}.{member.__qualname__}"  # not from the class statement, as a rule
            continue
        if name in OF_EVERY_CLASS or name in NOT_SET or isinstance(member, _OF_LIBRARY):
            continue
        if type(member) in ATOMS or type(member) is float:
            yield name, member
        elif isinstance(member, types.FunctionType):
            if not _is_of_library(member):
                yield name, member
            elif (member.__qualname__, member.__module__) != (f"{cls.__qualname__}.{name}", cls.__module__):
                yield name, member.__code__.co_qualname  # another name of a method, as a rule
        elif not (name.startswith("_") and name.endswith("_")):
            functions = [*_functions(member)]
            if not functions or not all(map(_is_of_library, functions)):
                yield name, member


def _is_of_library(function: types.FunctionType) -> bool:
    return str(function.__globals__.get("__name__")).partition(".")[0] in sys.stdlib_module_names
