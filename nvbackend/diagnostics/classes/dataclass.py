"""`dataclass` of Python, with less code to compile for a class: a fresh process makes hundreds of them.

Python's own writes the text of each method, nine for some classes, and compiles them one by one. Here it finds the
fields, and each method is made at its first use. Only `__init__` and `__hash__` are texts, one for all classes whose
fields differ in names and defaults alone: the others are functions that are given the fields. The classes are
dataclasses to all that asks: `fields`, `replace`, `inspect.signature`, `match`, `pickle`. Type checkers see Python's
decorator.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, FrozenInstanceError
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

from nvbackend.diagnostics.classes.late_method import LateMethod
from nvbackend.diagnostics.classes.texts import compiled, numbered

if TYPE_CHECKING:
    from dataclasses import dataclass

__all__ = ["dataclass"]

_Method = Callable[..., Any]
_FORMS = ("ClassVar", "InitVar", "KW_ONLY")
"""What annotations say of names that are not fields."""
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")


def _made(cls: Any, asked: dict[str, bool]) -> Any:
    """The class as a dataclass with the parameters of the decorator that were `asked` for."""
    frozen = asked.get("frozen", False)
    # Python compares a class's being frozen with that of its bases.
    inherits = frozen and any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
    only_fields = {**asked, "init": False, "repr": False, "eq": False, "order": False, "unsafe_hash": False}
    cls = _with_fields(cls, {**only_fields, "frozen": inherits})
    parameters = cls.__dataclass_params__
    parameters.init, parameters.repr, parameters.eq = (asked.get(name, True) for name in ("init", "repr", "eq"))
    parameters.order, parameters.unsafe_hash = asked.get("order", False), asked.get("unsafe_hash", False)
    parameters.frozen = frozen
    scope = vars(sys.modules[cls.__module__])  # a program may end, or import the module again, before the first use
    for name in tuple(_methods(cls, parameters)):
        setattr(cls, name, _OfClass(name, cls, scope))
    if frozen:
        cls.__setattr__, cls.__delattr__ = _set_other, _delete_other
    if frozen and asked.get("slots", False):
        for name, method in (("__getstate__", _state), ("__setstate__", _restore)):
            if name not in vars(cls):
                setattr(cls, name, method)
    return cls


def _with_fields(cls: Any, asked: dict[str, bool]) -> Any:
    """The class as Python's decorator makes it.

    That looks for the forms in each annotation that is a text, by patterns, which takes as long as all else: it gets
    none where no text has one of their names.
    """
    annotations = vars(cls).get("__annotations__", {})
    texts = dict(annotations)
    if any(map(" ".join(map(str, texts.values())).__contains__, _FORMS)):
        return dataclasses.dataclass(**asked)(cls)
    annotations.update(dict.fromkeys(texts, object))
    try:
        cls = dataclasses.dataclass(**asked)(cls)
    finally:
        annotations.update(texts)
    for name, text in texts.items():
        cls.__dataclass_fields__[name].type = text
    return cls


def _methods(cls: Any, parameters: Any) -> Iterator[str]:
    """The names of the methods that the class gets, but for those of a frozen one: its own take their places."""
    own = vars(cls)
    if _is_hashed(cls, parameters):
        yield "__hash__"
    for name, is_asked in (("__init__", parameters.init), ("__repr__", parameters.repr), ("__eq__", parameters.eq)):
        if is_asked and name not in own:
            yield name
    if parameters.order:
        yield from (name for name in _ORDER if name not in own)


class _OfClass(LateMethod):
    """A method of a dataclass, which its fields say all about."""

    __slots__ = ("_cls", "_scope")

    def __init__(self, name: str, cls: Any, scope: dict[str, Any]) -> None:
        super().__init__(name)
        self._cls = cls
        self._scope = scope

    def make(self) -> _Method:
        method: Any = _MAKERS[self.name](self._cls, self._scope)
        method.__name__, method.__qualname__ = self.name, f"{self._cls.__qualname__}.{self.name}"
        method.__module__ = self._cls.__module__
        made: _Method = method
        return made


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


def _initialiser(cls: Any, scope: dict[str, Any]) -> _Method:
    fields, frozen = dataclasses.fields(cls), cls.__dataclass_params__.frozen
    outside: dict[str, object] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
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
    made: _Method = method
    return made


def _assignment(name: str, value: str, *, frozen: bool) -> str:
    return f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}"


def _slot(cls: type, name: str) -> MemberDescriptorType | None:
    """The slot that holds the attribute in objects of the class, if one does."""
    for each in cls.__mro__:
        if name in vars(each):
            member = vars(each)[name]
            return member if type(member) is MemberDescriptorType else None
    return None


def _hash(cls: Any, scope: dict[str, Any]) -> _Method:
    fields = dataclasses.fields(cls)
    hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    values = "".join(f"self.{name}," for name in numbered(len(hashed)))
    return compiled(scope, "__hash__", ["self"], [f"return hash(({values}))"], hashed, {})


class _Factory:
    """The default of an argument whose field is made anew for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _printer(cls: Any, _: object) -> _Method:
    """As Python's, but for its decorator of another module, which says nothing of what it reads."""
    names = [field.name for field in dataclasses.fields(cls) if field.repr]
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


def _comparison(relation: Callable[[Any, Any], Any]) -> Callable[[Any, object], _Method]:
    def made(cls: Any, _: object) -> _Method:
        values = _values(field.name for field in dataclasses.fields(cls) if field.compare)

        def compared(self: Any, other: object) -> Any:
            return relation(values(self), values(other)) if other.__class__ is self.__class__ else NotImplemented

        return compared

    return made


def _set_other(self: Any, name: str, value: object) -> None:
    """`__setattr__` of every frozen class. Objects of a class that is not a dataclass can have other attributes."""
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    super(_last_with("__setattr__", _set_other, self), self).__setattr__(name, value)


def _delete_other(self: Any, name: str) -> None:
    """`__delattr__` of every frozen class."""
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    super(_last_with("__delattr__", _delete_other, self), self).__delattr__(name)


def _is_frozen(thing: Any, name: str) -> bool:
    fields = "__dataclass_fields__"
    return fields in vars(type(thing)) or name in getattr(thing, fields)


def _last_with(name: str, method: _Method, thing: object) -> Any:
    """The last class of an object that has the method: what the next one does is not of a dataclass."""
    return next(cls for cls in reversed(type(thing).__mro__) if vars(cls).get(name) is method)


def _state(self: Any) -> list[object]:
    """What pickle keeps of a frozen object with slots."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_MAKERS: dict[str, Callable[[Any, dict[str, Any]], _Method]] = {
    "__init__": _initialiser,
    "__hash__": _hash,
    "__repr__": _printer,
    "__eq__": _comparison(operator.eq),
    **{name: _comparison(getattr(operator, name)) for name in _ORDER},
}
"""What makes each method of a class, which is as if it were written in the module with these names."""


if not TYPE_CHECKING:

    def dataclass(cls=None, /, **asked):
        """Python's decorator `dataclass`, with its parameters."""
        return (lambda decorated: _made(decorated, asked)) if cls is None else _made(cls, asked)
