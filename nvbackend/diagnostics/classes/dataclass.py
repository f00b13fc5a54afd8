"""`dataclass` of Python, with less code to compile for a class: a fresh process makes hundreds of them.

Python's own writes the text of each method, nine for some classes, and compiles them one by one. Here it finds the
fields, and of the methods only `__init__` and `__hash__` are texts, compiled at their first use, one for all classes
whose fields differ in names and defaults alone: the others are functions that are given the fields. The classes are
dataclasses to all that asks: `fields`, `replace`, `inspect.signature`, `match`, `pickle`. Type checkers see Python's
decorator.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

from nvbackend.diagnostics.classes.texts import compiled, numbered

if TYPE_CHECKING:
    from dataclasses import dataclass

__all__ = ["LateMethod", "dataclass"]

_MAKING = threading.RLock()
_Method = Callable[..., Any]
_Fields = Sequence[Field[Any]]
_ORDER = {"__lt__": operator.lt, "__le__": operator.le, "__gt__": operator.gt, "__ge__": operator.ge}


def _made(cls: Any, asked: dict[str, bool]) -> Any:
    """The class as a dataclass with the parameters of the decorator that were `asked` for."""
    frozen = asked.get("frozen", False)
    # Python compares a class's being frozen with that of its bases.
    inherits = frozen and any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
    only_fields = {**asked, "init": False, "repr": False, "eq": False, "order": False, "unsafe_hash": False}
    cls = dataclasses.dataclass(**{**only_fields, "frozen": inherits})(cls)
    parameters = cls.__dataclass_params__
    parameters.init, parameters.repr, parameters.eq = (asked.get(name, True) for name in ("init", "repr", "eq"))
    parameters.order, parameters.unsafe_hash = asked.get("order", False), asked.get("unsafe_hash", False)
    parameters.frozen = frozen
    fields = dataclasses.fields(cls)
    scope = vars(sys.modules[cls.__module__])  # a program may end, or import the module again, before the first use
    if parameters.init and "__init__" not in vars(cls):
        cls.__init__ = LateMethod("__init__", lambda: _initialiser(cls, scope, fields, frozen=frozen))
    if _is_hashed(cls, parameters):
        cls.__hash__ = LateMethod("__hash__", lambda: _hash(cls, scope, fields))
    for name, method in _methods(parameters, fields):
        if name not in vars(cls):
            _set(cls, name, method)
    if frozen:
        _freeze(cls, fields, with_state=asked.get("slots", False))
    return cls


class LateMethod:
    """A method of a class that is made when it is first asked for, and takes this one's place then."""

    __slots__ = ("_make", "_name", "made")

    def __init__(self, name: str, make: Callable[[], _Method]) -> None:
        self._name = name
        self._make = make
        self.made: _Method | None = None
        """The method, after its first use."""

    def __get__(self, thing: object, owner: type) -> Any:
        with _MAKING:
            if self.made is None:
                self.made = self._make()
        method: Any = self.made
        for cls in owner.__mro__:
            if vars(cls).get(self._name) is self:
                setattr(cls, self._name, method)
        return method.__get__(thing, owner)

    def then(self, decorate: Callable[[Any], Any]) -> LateMethod:
        """The method that `decorate` makes of it."""
        return LateMethod(self._name, lambda: decorate(self._make()))


def _named(cls: Any, name: str, method: _Method) -> _Method:
    method.__name__, method.__qualname__, method.__module__ = name, f"{cls.__qualname__}.{name}", cls.__module__
    return method


def _set(cls: Any, name: str, method: _Method) -> None:
    setattr(cls, name, _named(cls, name, method))


def _is_hashed(cls: Any, parameters: Any) -> bool:
    """Whether the class gets a hash by its fields. Sets none where it can have none; its own stays.

    A class that defines `__eq__` alone has None of Python.
    """
    if vars(cls).get("__hash__") is not None:
        return False
    is_hashed = bool(parameters.unsafe_hash or (parameters.eq and parameters.frozen))
    if parameters.eq and not is_hashed:
        cls.__hash__ = None
    return is_hashed


def _initialiser(cls: Any, scope: dict[str, Any], fields: _Fields, *, frozen: bool) -> _Method:
    outside: dict[str, object] = {"_object": object, "_FACTORY": _FACTORY}
    defaults, keyword_defaults = list[object](), dict[str, object]()
    places, keywords, body = list[str](), list[str](), list[str]()
    for name, field in zip(numbered(len(fields)), fields, strict=True):
        value, default = name, field.default
        if field.default_factory is not MISSING:
            outside[f"make{name}"], default = field.default_factory, _FACTORY
            value = f"make{name}() if {name} is _FACTORY else {name}" if field.init else f"make{name}()"
        elif not field.init and default is not MISSING:
            outside[value := f"default{name}"] = default
        elif not field.init:
            continue
        if field.init and field.kw_only:
            keywords.append(name)
            if default is not MISSING:
                keyword_defaults[field.name] = default
        elif field.init:
            places.append(name)
            if default is not MISSING:
                defaults.append(default)
            elif defaults:
                raise TypeError(f"non-default argument {field.name!r} follows default argument")
        slot = _slot(cls, field.name) if frozen else None
        if slot is not None:
            outside[f"set{name}"] = slot.__set__  # half the time of object.__setattr__
        body.append(f"set{name}(self, {value})" if slot else _assignment(name, value, frozen=frozen))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    arguments = ["self", *places, *(["*", *keywords] if keywords else [])]
    own = [field.name for field in fields]
    method: Any = compiled(scope, "__init__", arguments, body or ["pass"], own, outside)
    method.__defaults__, method.__kwdefaults__ = tuple(defaults), keyword_defaults
    method.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return _named(cls, "__init__", method)


def _assignment(name: str, value: str, *, frozen: bool) -> str:
    return f"_object.__setattr__(self, {name!r}, {value})" if frozen else f"self.{name} = {value}"


def _slot(cls: type, name: str) -> MemberDescriptorType | None:
    """The slot that holds the attribute in objects of the class, if one does."""
    member = next((vars(each)[name] for each in cls.__mro__ if name in vars(each)), None)
    return member if isinstance(member, MemberDescriptorType) else None


def _hash(cls: Any, scope: dict[str, Any], fields: _Fields) -> _Method:
    hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    values = "".join(f"self.{name}, " for name in numbered(len(hashed)))
    return _named(cls, "__hash__", compiled(scope, "__hash__", ["self"], [f"return hash(({values}))"], hashed, {}))


def _methods(parameters: Any, fields: _Fields) -> Iterator[tuple[str, _Method]]:
    """The other methods, by their names: those of the class itself take their places."""
    if parameters.repr:
        yield "__repr__", _printer([field.name for field in fields if field.repr])
    compared = _values(field.name for field in fields if field.compare)
    if parameters.eq:
        yield "__eq__", _comparison(compared, operator.eq)
    if parameters.order:
        for name, relation in _ORDER.items():
            yield name, _comparison(compared, relation)


class _Factory:
    """The default of an argument whose field is made anew for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _printer(names: Sequence[str]) -> _Method:
    """As Python's, but for its decorator of another module, which says nothing of what it reads."""
    printing: set[tuple[int, int]] = set()

    def printed(self: Any) -> str:
        key = id(self), threading.get_ident()
        if key in printing:
            return "..."
        printing.add(key)
        try:
            shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        finally:
            printing.discard(key)
        return f"{type(self).__qualname__}({shown})"

    return printed


def _values(names: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function from an object to a tuple of its attributes."""
    several = list(names)
    if len(several) > 1:
        return operator.attrgetter(*several)
    if not several:
        return lambda _: ()
    only = operator.attrgetter(*several)
    return lambda self: (only(self),)


def _comparison(values: Callable[[Any], tuple[Any, ...]], relation: Callable[[Any, Any], Any]) -> _Method:
    def compared(self: Any, other: object) -> Any:
        return relation(values(self), values(other)) if other.__class__ is self.__class__ else NotImplemented

    return compared


def _freeze(cls: Any, fields: _Fields, *, with_state: bool) -> None:
    names = frozenset(field.name for field in fields)

    def set_(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    _set(cls, "__setattr__", set_)
    _set(cls, "__delattr__", delete)
    if with_state:
        for name, method in (("__getstate__", _state), ("__setstate__", _restore)):
            if name not in vars(cls):
                setattr(cls, name, method)


def _state(self: Any) -> list[object]:
    """What pickle keeps of a frozen object with slots."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


if not TYPE_CHECKING:

    def dataclass(cls=None, /, **asked):
        """Python's decorator `dataclass`, with its parameters."""
        return (lambda decorated: _made(decorated, asked)) if cls is None else _made(cls, asked)
