"""Of which of Python's abstract classes a class is: what isinstance says, by methods, bases and registrations."""

from __future__ import annotations

import abc
import collections.abc
import functools
import numbers
import types
import weakref
from collections.abc import Iterator
from typing import Any

from nvbackend.builder.kernel.again.objects import HEAP_TYPE

ABSTRACT = (
    *(getattr(collections.abc, name) for name in collections.abc.__all__),
    *(numbers.Number, numbers.Complex, numbers.Real, numbers.Rational, numbers.Integral),
)
_BASES_FIRST = tuple(
    (each, [base for base in each.__bases__ if base in ABSTRACT])
    for each in sorted(ABSTRACT, key=lambda each: len(each.__mro__))
)
_HOOK = "__subclasshook__"
_HOOKS = {each: vars(each)[_HOOK] for each in (*ABSTRACT, object) if _HOOK in vars(each)}


class Registrations:
    """The abstract classes of classes, for one look, without asking Python, which takes ten times as long.

    What Python has said of a class it says again, also where the class has changed since: of such a class it is asked.
    One of C does not change.
    """

    __slots__ = ("_asked", "_leads_to", "_token")

    def __init__(self) -> None:
        self._token: object = None
        self._asked: set[weakref.ref[type]] = set()
        self._leads_to: dict[type, tuple[type, ...]] | None = None
        """Classes that make those below them ones of abstract classes: of which. None where only Python can say it."""

    def of(self, cls: type) -> tuple[list[type], list[type]]:
        """The classes registered on `cls` and on the classes below it, and those of Python's on which `cls` is."""
        token = abc.get_cache_token()
        if token != self._token:
            self._look()
            self._token = token
        if self._leads_to is None or (cls.__flags__ & HEAP_TYPE and weakref.ref(cls) in self._asked):
            return _below(cls), _asked(cls, token)
        above = {abstract for base in cls.__mro__ for abstract in self._leads_to.get(base, ())}
        methods = _methods(cls)
        above.update(each for each, needed in _NEEDED if needed <= methods)
        return _below(cls), [each for each in ABSTRACT if each in above]

    def _look(self) -> None:
        """Take down what Python knows of its abstract classes and of those below them."""
        classes, todo = dict[type, None](), list[Any](ABSTRACT)
        leads_to: dict[type, tuple[type, ...]] = {}
        is_usual = _HOOKS_ARE_KNOWN
        while todo:
            cls = todo.pop()
            if cls in classes:
                continue
            classes[cls] = None
            todo += type.__subclasses__(cls)
            is_usual &= _has_usual_hook(cls)
            registered, yes, no, *_ = _dump(cls)
            self._asked.update(yes, no)
            for each in (cls, *[other for entry in registered if (other := entry()) is not None]):
                is_usual &= each is cls or _check_of(each) is _check_of(object)
                leads_to[each] = (*leads_to.get(each, ()), *cls.__mro__)
        self._leads_to = leads_to if is_usual else None


def _needed(abstract: type) -> frozenset[str]:
    """The methods that the hook of an abstract class looks for: those that it and its bases define."""
    members = [member for base in abstract.__mro__[:-1] for member in vars(base).items()]
    return frozenset(name for name, member in members if isinstance(member, types.FunctionType))


_NEEDED = tuple((each, _needed(each)) for each in _HOOKS if each is not object)
_SOUGHT = frozenset[str]().union(*[needed for _, needed in _NEEDED])
_HOOKS_ARE_KNOWN = all(
    needed == set(filter(lambda constant: isinstance(constant, str), _HOOKS[each].__func__.__code__.co_consts))
    for each, needed in _NEEDED
)
"""Whether this Python's hooks are those of the Pythons with which this was tried."""


def _methods(cls: type) -> frozenset[str]:
    """The methods of `cls` for which hooks look."""
    methods: dict[str, bool] = {}
    for base in reversed(cls.__mro__):
        members = vars(base)
        for name in filter(members.__contains__, _SOUGHT):
            methods[name] = members[name] is not None
    return frozenset([name for name, is_there in methods.items() if is_there])


def _has_usual_hook(cls: Any) -> bool:
    """Whether a class below an abstract one says nothing of its own about what is below it."""
    for base in cls.__mro__:
        if _HOOK in vars(base):
            return vars(base)[_HOOK] is _HOOKS.get(base) and _check_of(cls) is _check_of(abc.ABC)
    return False


def _check_of(cls: Any) -> object:
    """What Python calls to see whether a class is of `cls`."""
    return type(cls).__subclasscheck__


@functools.lru_cache(maxsize=256)
def _asked(cls: type, _token: object) -> list[type]:
    above: dict[type, None] = {}
    for each, bases in _BASES_FIRST:  # what is of no base of an abstract class is not of that class
        if all(map(above.__contains__, bases)) and issubclass(cls, each):
            above[each] = None
    return [each for each in ABSTRACT if each in above]


def _below(cls: type) -> list[type]:
    """What is registered on `cls` and on the classes below it."""
    below = {entry: None for each in _with_those_below(cls) for entry in _registered(each)}
    return sorted(below, key=lambda each: f"{each.__module__}.{each.__qualname__}")


def _with_those_below(cls: type) -> Iterator[type]:
    yield cls
    below: list[type] = type.__subclasses__(cls)
    for each in below:
        yield from _with_those_below(each)


def _registered(cls: type) -> list[type]:
    """What `cls.register` was given."""
    if not isinstance(cls, abc.ABCMeta):
        return []
    return [entry for each in _dump(cls)[0] if (entry := each()) is not None]


def _dump(cls: type) -> tuple[Any, ...]:
    """What is registered on an abstract class, which classes it said are of it, which not: only CPython says that."""
    dump: Any = vars(abc)["_get_dump"]
    dumped: tuple[Any, ...] = dump(cls)
    return dumped
