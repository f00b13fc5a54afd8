"""Whether nothing has changed since a look at what a function reads, in little time: a snapshot, compared by identity.

A look goes from object to object by what each of them holds. While all of them hold the same objects as before, another
look would go the same way and have the same result. Values are not compared here: where another object has taken the
place of an equal one, the content has to be looked at again. A snapshot has at least what a look reads of an object.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import gc
import itertools
import operator
import os
import pathlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nvbackend.builder.kernel.again.constants import is_ours
from nvbackend.builder.kernel.again.content import Visited
from nvbackend.builder.kernel.again.objects import ALIASES, FIELD, HEAP_TYPE, builtins_of, is_boundary, slots_of

_OF_FUNCTIONS = operator.attrgetter("__code__", "__dict__", "__name__", "__qualname__", "__module__")
_OF_FOLLOWED = operator.attrgetter("__defaults__", "__kwdefaults__", "__annotations__", "__doc__")
"""Of functions of the user's: the annotations of others may name what is only there for type checkers."""
_OF_CLASSES = operator.attrgetter("__mro__", "__name__", "__qualname__")
_OF_KINDS: dict[type, Callable[[Any], Any]] = {
    functools.partial: operator.attrgetter("func", "args", "keywords", "__dict__"),
    property: operator.attrgetter("fget", "fset", "fdel", "__doc__"),
    functools.cached_property: operator.attrgetter("func", "attrname"),
    **dict.fromkeys((staticmethod, classmethod), operator.attrgetter("__func__", "__dict__")),
    FIELD: lambda field: (field.__doc__,),
}
_FIXED = frozenset(
    {
        *(complex, tuple, frozenset, range, slice, types.BuiltinFunctionType, types.MethodType, *ALIASES),
        *(types.UnionType, types.MemberDescriptorType, types.WrapperDescriptorType),
        *(types.MethodDescriptorType, types.ClassMethodDescriptorType),
        *(pathlib.PosixPath, pathlib.WindowsPath),
    }
)
"""Kinds whose objects always hold the same."""
_CONTENTS = operator.attrgetter("cell_contents")
_GONE = (AttributeError, LookupError, RuntimeError, ValueError)
"""What reading an attribute, a name, a dictionary that grows, or a cell raises where it is not as it was."""


class NoSnapshot(Exception):
    """An object does not show all that it holds, or not in the same way each time."""


class Snapshot:
    """What the visited objects held when this was made."""

    __slots__ = (
        *("_absent", "_attributes", "_cells", "_classes", "_collections", "_dictionaries", "_filled", "_imports"),
        *("_instances", "_members", "_objects", "_scopes", "_sizes", "_slots", "_then", "_token"),
    )

    def __init__(self, *looks: Visited) -> None:
        """Raises NoSnapshot."""
        self._objects: list[object] = []
        self._attributes: dict[Callable[[Any], Any], list[object]] = {}
        self._cells: list[types.CellType] = []
        self._slots: list[tuple[Callable[[object], object], object]] = []
        self._instances: list[object] = []
        self._collections: list[Any] = []
        self._dictionaries: list[dict[Any, Any]] = []
        self._classes: dict[type, None] = {}
        self._scopes: list[tuple[Callable[[Any], tuple[Any, ...]], dict[str, Any]]] = []
        self._absent: list[tuple[Any, list[str]]] = []
        for visited in looks:
            for value in visited.objects:
                self._value(value)
            if visited.by_name:
                self._dictionary(*map(vars, visited.modules))
            for function in visited.followed:
                self._read(_OF_FOLLOWED, function)
                self._dictionary(function.__annotations__)
        for scope, names in _scopes(looks):
            self._scope(scope, names)
        imports = {name: None for visited in looks for name in visited.imports}
        self._imports = _getter(imports) if imports else None
        self._read(_OF_CLASSES, *self._classes)
        self._members = [*map(vars, self._classes)]
        try:
            self._token = abc.get_cache_token()
            self._sizes = self._counted()
            self._filled = [*filter(None, self._dictionaries)]
            self._then = [*self._now()]
        except _GONE as error:
            raise NoSnapshot from error

    def is_unchanged(self) -> bool:
        """Whether each object holds what it held."""
        try:
            return (
                self._token == abc.get_cache_token()
                and self._counted() == self._sizes
                and all(map(operator.is_, self._now(), self._then))
                and all(names.isdisjoint(absent) for names, absent in self._absent)
            )
        except _GONE:
            return False

    def _counted(self) -> list[int]:
        """How much is in each collection: two of them might change places with what they hold."""
        return [*map(len, self._collections), *map(len, self._dictionaries), *map(len, self._members)]

    def _now(self) -> Iterator[object]:
        """All that the objects hold, in one order."""
        together = itertools.chain.from_iterable
        return itertools.chain(
            map(type, self._objects),
            *[together(map(read, owners)) for read, owners in self._attributes.items()],
            map(_CONTENTS, self._cells),
            [read(owner) for read, owner in self._slots],
            map(object.__getattribute__, self._instances, itertools.repeat("__dict__")),
            together(self._collections),
            together(self._filled),
            together(map(dict.values, self._filled)),
            together(self._members),
            together(map(types.MappingProxyType.values, self._members)),
            *[read(scope) for read, scope in self._scopes],
            self._imports(sys.modules) if self._imports is not None else (),
        )

    def _value(self, value: Any) -> None:
        kind: Any = type(value)
        if kind is types.FunctionType:
            self._function(value)
        elif kind is list or kind is set:
            self._collections.append(value)
        elif kind is dict:
            self._dictionary(value)
        elif kind is types.MappingProxyType:
            self._dictionary(*gc.get_referents(value))
        elif kind is types.ModuleType:
            self._objects.append(value)
            self._collections.append(vars(value))  # a name that comes or goes is a change: code may ask for any
        elif kind in _OF_KINDS:
            self._read(_OF_KINDS[kind], value)
            if kind is functools.partial:
                self._dictionary(value.keywords)
            if kind is not property and kind is not FIELD:
                self._dictionary(vars(value))
        elif issubclass(kind, type):
            self._class(value)
        elif kind not in _FIXED:
            self._instance(value)

    def _read(self, read: Callable[[Any], Any], *owners: object) -> None:
        self._attributes.setdefault(read, []).extend(owners)

    def _dictionary(self, *values: Any) -> None:
        for value in values:
            if type(value) is not dict:
                raise NoSnapshot
            self._dictionaries.append(value)

    def _function(self, function: types.FunctionType) -> None:
        if not is_boundary(function):
            self._cells += function.__closure__ or ()
        self._read(_OF_FUNCTIONS, function)
        self._dictionary(vars(function))

    def _class(self, cls: Any) -> None:
        self._objects.append(cls)
        if is_ours(cls):
            return
        for base in (*cls.__mro__, type(cls)):
            if base.__flags__ & HEAP_TYPE:
                self._classes[base] = None

    def _instance(self, value: Any) -> None:
        cls: Any = type(value)
        if issubclass(cls, os.PathLike):
            raise NoSnapshot
        self._objects.append(value)
        self._slots += [(_reader_of(slot, value), value) for slot in slots_of(cls)]
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        self._instances.append(value)
        self._dictionary(attributes)

    def _scope(self, scope: dict[str, Any], names: Iterable[str]) -> None:
        there, absent = [name for name in names if name in scope], [name for name in names if name not in scope]
        if there:
            self._scopes.append((_getter(there), scope))
        if absent:
            self._absent.append((scope.keys(), absent))


def _reader_of(slot: types.MemberDescriptorType, value: object) -> Callable[[object], object]:
    """What reads an object's slot, also one that is not set now."""
    try:
        slot.__get__(value)
    except AttributeError:

        def read(value: object) -> object:
            with contextlib.suppress(AttributeError):
                return slot.__get__(value)
            return slot

        return read
    return slot.__get__


def _scopes(looks: Iterable[Visited]) -> Iterable[tuple[dict[str, Any], Iterable[str]]]:
    """Dictionaries of names, each with the names that were sought in it."""
    sought: dict[int, tuple[dict[str, Any], dict[str, None]]] = {}

    def seek(scope: dict[str, Any], names: Iterable[str]) -> None:
        sought.setdefault(id(scope), (scope, {}))[1].update(dict.fromkeys(names))

    for visited in looks:
        for module in visited.modules:
            members = vars(module)
            seek(members, [name for name in ("__name__", "__getattr__", *visited.attributes) if name in members])
        for value in visited.objects:
            if type(value) is types.FunctionType:
                seek(value.__globals__, ["__name__"])
        for scope, names in visited.scopes.values():
            seek(scope, ["__builtins__", *names.globals])
            seek(builtins_of(scope), [name for name in names.globals if name not in scope])
    return sought.values()


def _getter(names: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads the values of `names`, one at least, as a tuple."""
    first, *others = names
    return operator.itemgetter(first, first, *others)
