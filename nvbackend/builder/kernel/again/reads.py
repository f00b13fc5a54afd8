"""What a Python function reads besides its arguments, as one value: equal before and after, it does the same again.

A kernel's function is Python and may read anything. `Reads` follows it through globals, closures, defaults, helpers,
classes, instances and modules, and takes down the content of all that it finds. What cannot be taken down (files, the
clock, random numbers, iterators, objects of other languages, names made at run time) is UnknownRead: then nothing can
be said, and the kernel has to be built.
"""

from __future__ import annotations

import enum
import functools
import os
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from nvbackend.builder.kernel.again.abstract import Registrations
from nvbackend.builder.kernel.again.code_names import Names, names_of, names_of_text
from nvbackend.builder.kernel.again.constants import (
    ATOMS,
    bits_of,
    is_constant,
    is_ours,
    is_trusted_class,
    may_be_constant,
)
from nvbackend.builder.kernel.again.content import Content, UnknownRead, Unread, Visited
from nvbackend.builder.kernel.again.objects import (
    DESCRIPTORS,
    HEAP_TYPE,
    PLAIN,
    WRAPPERS,
    attributes_of,
    builtins_of,
    declares,
    hides,
    is_boundary,
    is_part,
    name_of,
    set_in,
    slots_of,
)
from nvbackend.builder.kernel.again.pure_names import (
    BY_NAME,
    NOT_FOLLOWED,
    OF_EVERY_CLASS,
    PACKAGE,
    PURE,
    is_trusted,
)
from nvbackend.builder.kernel.again.set_on import class_with_more, is_ours_by_name, set_on_library
from nvbackend.builder.kernel.again.snapshot import NoSnapshot, Snapshot
from nvbackend.diagnostics import functions_in

MOST_VALUES = 5000
"""How many values are followed: with more, looking costs as much as building."""


class Reads:
    """Follows functions and values. It keeps what code says and what objects of ours are, which does not change."""

    __slots__ = ("_codes", "_constants")

    def __init__(self) -> None:
        self._codes: dict[int, tuple[types.CodeType, Names]] = {}
        self._constants: dict[int, tuple[object, Content]] = {}

    def of(self, function: Callable[..., Any], inputs: object, settings: object, place: object = None) -> Content:
        """The content of all that `function` reads, of its `inputs` and of `settings`, which it does not see.

        `place` is a setting that counts in this process alone. A path in `settings` is a name: what is at it is
        compared elsewhere. Raises UnknownRead.
        """
        if changed := class_with_more():
            raise UnknownRead(f"class {changed}, on which the program set something")
        walk = _Walk(self)
        try:
            walk.value(inputs)
            walk.value(function)
            for each in functions_in(function):
                if is_trusted(each.__globals__.get("__name__")):
                    walk.annotations(each)
            walk.finish()
            walk.paths_are_names = True
            walk.value(settings)
            lasts = len(walk.content)
            walk.value(place)
        except RecursionError:
            raise UnknownRead("values in values in values") from None
        return walk.result(lasts)

    def snapshot(self, content: Content, more: object) -> Snapshot | None:
        """What the objects hold now that `content` was read from, and those to which `more` leads.

        While they hold the same, the content is the same. None for objects of which that is not known.
        """
        walk = _Walk(self)
        try:
            walk.value(more)
            walk.finish()
            return Snapshot(content.visited, walk.visited)
        except (RecursionError, UnknownRead, NoSnapshot):
            return None

    def constant(self, value: object, abstract: Registrations | None = None) -> Content | None:
        """The content of an object of ours that never changes; None for others."""
        known = self._constants.get(id(value))
        if known is None:
            if not is_constant(value):
                return None
            if len(self._constants) >= MOST_VALUES:
                self._constants.clear()
            walk = _Walk(self, abstract)
            walk.members(value)
            known = self._constants[id(value)] = value, walk.result()
        return known[1]

    def names(self, code: types.CodeType) -> Names:
        """The names that `code` uses."""
        known = self._codes.get(id(code))
        if known is None:
            if len(self._codes) >= MOST_VALUES:
                self._codes.clear()
            known = self._codes[id(code)] = code, names_of(code)
        return known[1]


class _Walk:
    """One look at everything: `content` is what was found, in the order in which it was."""

    __slots__ = (
        *("_abstract", "_by_name", "_of_library", "_reads", "_seen"),
        *("content", "kept", "named", "paths_are_names", "visited"),
    )

    def __init__(self, reads: Reads, abstract: Registrations | None = None) -> None:
        self._reads = reads
        self._seen: dict[int, int] = {}
        self._by_name = False
        self._of_library: set[type] = set()
        self._abstract = abstract or Registrations()
        self.content: list[object] = []
        self.kept: list[object] = []
        self.named: list[tuple[int, object]] = []
        self.paths_are_names = False
        self.visited = Visited()

    def result(self, lasts: int | None = None) -> Content:
        """The content of all that was looked at."""
        return Content(self.content, self.named, self.kept, self.visited, lasts)

    def value(self, value: Any) -> None:
        """Take down `value`."""
        kind: Any = type(value)
        content = self.content
        if kind in ATOMS:
            content += (kind, value)
            return
        if kind is float:
            content += (kind, bits_of(value))
            return
        if len(self._seen) > MOST_VALUES:
            raise UnknownRead(f"more than {MOST_VALUES} values")
        place = self._seen.get(id(value))
        if place is not None:
            content += ("again", place)
            return
        self._seen[id(value)] = len(self._seen)
        self.kept.append(value)
        take = _TAKERS.get(kind)
        known = self._reads.constant(value, self._abstract) if take is None and may_be_constant(kind) else None
        if known is not None:
            self.named.append((len(content), known))
            content.append(known.parts)
            return
        self.visited.objects.append(value)
        if take is not None:
            content.append(kind)
            take(self, value)
        elif issubclass(kind, type):
            self._class(value)
        else:
            self._instance(value)

    def identity(self, value: object) -> None:
        """Take down which object `value` is, and nothing of its content."""
        self.named.append((len(self.content), value))
        self.content.append(id(value))

    def items(self, values: Iterable[object]) -> None:
        """Take down several values and how many there are."""
        known = list(values)
        self.content.append(len(known))
        for value in known:
            self.value(value)

    def mapping(self, values: types.MappingProxyType[Any, Any] | dict[Any, Any]) -> None:
        """Take down names and values in their order."""
        self.items([part for item in list(values.items()) for part in item])

    def function(self, function: types.FunctionType) -> None:
        """Take down a function: its code, and all that it reads."""
        self.identity(function.__code__)
        self.content += (function.__name__, function.__qualname__)
        self.value(function.__module__)
        module = function.__globals__
        name = module.get("__name__")
        if is_boundary(function):
            self.value(vars(function)["__wrapped__"])  # the closure grows with the kinds of arguments that passed
            return
        for cell in function.__closure__ or ():
            try:
                inside = cell.cell_contents
            except ValueError:
                self.content.append("empty cell")
            else:
                self.value(inside)
        if is_trusted(name):
            if function.__code__.co_name in NOT_FOLLOWED:
                raise UnknownRead(f"{name}.{function.__code__.co_name}, which evaluates text")
            self.mapping(vars(function))  # a wrapper that Python's library made of a function of the user's has it
            return
        self.content.append(function.__doc__)
        self.value(function.__defaults__)
        self.value(function.__kwdefaults__)
        self.mapping(vars(function))
        self.annotations(function)
        names = self._reads.names(function.__code__)
        if "hash" in names.globals and function.__name__ != "__hash__":  # those order sets and dictionaries alone
            self.content.append(hash(PACKAGE))  # each process has other hashes of text
        self._names(names, module)

    def annotations(self, function: Callable[..., Any]) -> None:
        """Take down what annotations say; those that are text are read in the function's scope."""
        try:
            annotations = dict(function.__annotations__)
        except NameError as error:  # Python 3.14 evaluates them now
            raise UnknownRead(f"annotations: {error}") from None
        self.visited.followed.append(function)
        self.mapping(annotations)
        for annotation in annotations.values():
            if isinstance(annotation, str):
                names = names_of_text(annotation)
                if names is not None:
                    self._names(names, function.__globals__)

    def _names(self, names: Names, module: dict[str, Any]) -> None:
        outside = builtins_of(module)
        if type(module) is not dict or type(outside) is not dict:
            raise UnknownRead("globals that are not a dictionary")
        scope = id(names), id(module)
        if scope in self.visited.scopes:
            return
        if names.unknown:
            raise UnknownRead(names.unknown)
        self._by_name |= names.by_name
        self.visited.attributes.update(names.attributes)
        self.visited.scopes[scope] = module, names
        for name in names.globals:
            if name in module:
                self.value(module[name])
            elif name in outside:
                self.value(outside[name])
            else:
                self.content.append("missing")
        for name in names.imports:
            if name not in sys.modules:
                raise UnknownRead(f"module {name}, not imported yet")
            for each in dict.fromkeys((name, name.partition(".")[0])):
                self.visited.imports[each] = None
                self.value(sys.modules[each])

    def module(self, module: types.ModuleType) -> None:
        """Note a module: what is read of it are the attributes that any code names."""
        self.identity(module)
        self.visited.modules.append(module)
        self.content.append(name_of(module))
        if not is_trusted(name_of(module)):
            self.value(vars(module).get("__getattr__"))

    def finish(self) -> None:
        """Take down what is read of modules: by every name that some code has for an attribute, or by any name."""
        modules, attributes = self.visited.modules, self.visited.attributes
        known = -1
        while known < len(attributes):
            self._named_members()
            known = len(attributes)
            if self._by_name:
                if users := [each for each in map(name_of, modules) if not is_trusted(each)]:
                    raise UnknownRead(f"module {users[0]}, by names made at run time")
                attributes.update(dict.fromkeys(name for each in modules for name in set_in(each)))
                self.visited.by_name = True

    def _named_members(self) -> None:
        modules, attributes = self.visited.modules, self.visited.attributes
        done_modules = done_names = 0
        while done_modules < len(modules) or done_names < len(attributes):
            names = list(attributes)
            todo = [
                (place, module, members, name)
                for place, module in enumerate(modules)
                for members in (vars(module),)
                for name in names[done_names if place < done_modules else 0 :]
                if name in members
            ]
            done_modules, done_names = len(modules), len(names)
            for place, module, members, name in todo:
                if not is_part(module, members[name]):
                    self.content += (place, name)
                    self.value(members[name])

    def builtin(self, function: types.BuiltinFunctionType) -> None:
        """Take down a function of C, where its results follow from its arguments."""
        owner = getattr(function, "__self__", None)
        if isinstance(owner, types.ModuleType):
            self.of_c(name_of(owner), function.__name__)
        elif isinstance(owner, type) and owner.__module__ == "builtins" and function.__name__ not in NOT_FOLLOWED:
            self.of_c("builtins", owner.__name__)
        else:
            raise UnknownRead(f"{type(owner).__qualname__}.{function.__name__}")
        self.identity(function)

    def of_c(self, module: str, name: str) -> None:
        """Make sure that what a function or a class of C does follows from its arguments."""
        if name in BY_NAME:
            self._by_name = True
        elif name in NOT_FOLLOWED or not (name in PURE if module == "builtins" else is_trusted(module)):
            raise UnknownRead(f"{module}.{name}")

    def _class(self, cls: type) -> None:
        if type(cls) is not type and not is_trusted_class(type(cls)):
            raise UnknownRead(f"class {cls.__qualname__} of {type(cls).__qualname__}")
        self.content.append("class")
        if is_ours(cls):
            self.identity(cls)
            return
        self._registrations(cls)
        self._set_on_library(type(cls))
        for base in cls.__mro__:
            self.identity(base)
            if base.__flags__ & HEAP_TYPE and not is_trusted_class(base):
                self.content += (base.__name__, base.__qualname__)
                self.value(base.__module__)
                self._members(base)
                continue
            self._set_on_library(base)
            if not issubclass(base, BaseException):
                self.of_c(base.__module__, base.__name__)

    def _registrations(self, cls: type) -> None:
        """Take down what is registered on a class, and where it is: that decides what isinstance says."""
        try:
            for classes in self._abstract.of(cls):
                self.content.append(len(classes))
                for each in classes:
                    self.identity(each)
        except Exception as error:  # noqa: BLE001  (a hook of the user's may raise anything)
            raise UnknownRead(f"whether class {cls.__qualname__} is of another: {error}") from None

    def _set_on_library(self, cls: type) -> None:
        """Take down, once, what a program may have set on a class of Python's library."""
        if cls.__flags__ & HEAP_TYPE and cls not in self._of_library and not is_ours_by_name(cls):
            self._of_library.add(cls)
            self.content += (cls.__name__, cls.__qualname__)
            for name, member in set_on_library(cls):
                self.content.append(name)
                self.value(member)

    def _members(self, cls: type) -> None:
        for name, member in list(vars(cls).items()):
            if type(member) is types.MemberDescriptorType and member.__objclass__ is cls and not declares(cls, member):
                raise UnknownRead(f"class {cls.__qualname__}, of C")
            if name not in OF_EVERY_CLASS:
                self.content.append(name)
                self.value(member)
            elif name == "__abstractmethods__":
                self.content.append(name)
                self.value(tuple(sorted(member)) if type(member) is frozenset else member)  # it has no order of its own

    def _instance(self, value: Any) -> None:
        """Take down an object of a class of Python: the class, and each attribute."""
        cls: Any = type(value)
        if issubclass(cls, Unread):
            return
        if issubclass(cls, os.PathLike):
            if self.paths_are_names:
                self.value(os.fspath(value))
                return
            # A function that has a path reads what is there, and the methods that do are Python's own.
            raise UnknownRead(f"a {cls.__qualname__}")
        self.members(value)

    def members(self, value: Any) -> None:
        """Take down an object's class and attributes."""
        cls: Any = type(value)
        self.value(cls)
        if issubclass(cls, enum.Enum):
            self.identity(value)
            for base, plain in PLAIN.items():
                if issubclass(cls, base):
                    self.value(plain(value))  # beside what it says that its value is
            if not is_trusted_class(cls):
                self.mapping(vars(value))
            return
        slots = slots_of(cls)
        if issubclass(cls, tuple):
            self.items(tuple.__iter__(value))
        elif hides(cls, len(slots)):
            raise UnknownRead(f"a {cls.__qualname__}")
        ours = is_trusted_class(cls)
        self.items(
            part
            for name, attribute in attributes_of(value, slots)
            if not (ours and type(getattr(cls, name, None)) is functools.cached_property)  # worked out of the rest
            for part in (name, attribute)
        )


_TAKERS: dict[type, Callable[[_Walk, Any], None]] = {
    **dict.fromkeys((tuple, list, set, frozenset), _Walk.items),
    **dict.fromkeys((dict, types.MappingProxyType), _Walk.mapping),
    range: lambda walk, value: walk.items((value.start, value.stop, value.step)),
    slice: lambda walk, value: walk.items((value.start, value.stop, value.step)),
    types.FunctionType: _Walk.function,
    types.BuiltinFunctionType: _Walk.builtin,
    types.ModuleType: _Walk.module,
    **WRAPPERS,
    **DESCRIPTORS,
}
"""How the content of a value of exactly this type is taken down."""
