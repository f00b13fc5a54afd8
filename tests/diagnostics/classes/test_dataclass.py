"""This package's `dataclass` makes what Python's makes: Python's own is the witness."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import operator
import pickle
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass as pythons
from dataclasses import field
from typing import Any, ClassVar

import pytest

from nvbackend.diagnostics.classes import dataclass as module
from nvbackend.diagnostics.classes import texts

OURS: Any = vars(module)["dataclass"]
Decorator = Callable[[Any], Any]
Make = Callable[[Any], Any]
"""Makes a class with a decorator, `dataclass` with or without parameters."""

FLAGS = ("frozen", "slots", "eq", "order", "unsafe_hash", "repr", "init", "kw_only", "match_args")
OPTIONS = [dict(zip(FLAGS, chosen, strict=True)) for chosen in itertools.product((False, True), repeat=len(FLAGS))]
SENSIBLE = [options for options in OPTIONS if options["eq"] or not options["order"]]


def _points(decorate: Decorator) -> Any:
    class Point:
        """A field of each kind."""

        x: int
        label: str = field(default="a", compare=False)
        y: float = 1.5
        tags: list[int] = field(default_factory=list, hash=False)
        hidden: int = field(default=3, repr=False)
        later: int = field(default=7, init=False)
        made: list[int] = field(default_factory=lambda: [4], init=False, hash=False)
        count: typing.ClassVar[int] = 5

    return decorate(Point)


def _empty(decorate: Decorator) -> Any:
    class Empty:
        """Has no field."""

    return decorate(Empty)


def _single(decorate: Decorator) -> Any:
    class Single:
        """Has one field: a tuple of one is compared, and NaN is then equal to itself."""

        value: object

    return decorate(Single)


def _own(decorate: Decorator) -> Any:
    class Own:  # noqa: PLW1641, the decorator gives it a hash, or none
        """Defines methods of its own."""

        value: object

        def __init__(self, value: int = 2) -> None:
            object.__setattr__(self, "value", 10 * value)

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self))

    return decorate(Own)


def _hashed(decorate: Decorator) -> Any:
    class Hashed:
        """Defines a hash of its own, and what is to be done last."""

        value: object
        twice: object = field(default=0, init=False)

        def __hash__(self) -> int:
            return 12

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", 2)

    return decorate(Hashed)


def _keyword(decorate: Decorator) -> Any:
    class Keyword:
        """Has a field with a default that is given by name, before one without."""

        x: int = field(default=1, kw_only=True)
        value: int
        made: list[int] = field(default_factory=list, kw_only=True, hash=False)
        last: int = 2

    return decorate(Keyword)


def _marked(decorate: Decorator) -> Any:
    class Marked:
        """Marks the fields that are given by name."""

        value: int
        _: dataclasses.KW_ONLY
        x: int = 1

    return decorate(Marked)


def _child(decorate: Decorator) -> Any:
    base = _points(decorate)

    class Child(base):  # type: ignore[misc,valid-type]
        """Adds a field to another dataclass."""

        extra: int = 9
        y: float = 2.5

    return decorate(Child)


MAKERS = (_points, _empty, _single, _own, _hashed, _keyword, _marked, _child)
ARGUMENTS: tuple[tuple[tuple[object, ...], dict[str, object]], ...] = (
    *(((), {}), ((1,), {}), ((2,), {}), ((float("nan"),), {}), ((1, "b"), {}), ((1, "a", 1.5, [2]), {})),
    *(((), {"x": 1}), ((), {"value": 1}), ((), {"x": 2, "tags": [1], "hidden": 4}), ((1, 2, 3, 4, 5, 6, 7), {})),
)


def _told(act: Callable[[], object]) -> object:
    """What a call gives, or the kind and words of its error, which name a class by its place here."""
    try:
        return act()
    except Exception as error:  # noqa: BLE001, the error is what is compared
        return type(error).__name__, str(error)


def _objects(cls: Any) -> Iterator[Any]:
    for positional, named in ARGUMENTS:
        try:
            yield cls(*positional, **named)
        except TypeError as error:
            yield str(error)


def _facts(cls: Any) -> dict[str, object]:
    """What can be asked of a class and of its objects, by what was asked."""
    cls.__init__, cls.__hash__  # noqa: B018, what is compiled at first use is then a function of the class
    facts: dict[str, object] = {
        "signature": str(inspect.signature(cls)),
        "annotations": cls.__init__.__annotations__ if "__init__" in vars(cls) else None,
        "written": vars(cls).get("__annotations__"),
        "parameters": repr(cls.__dataclass_params__),
        "fields": [(each.name, each.type, each.init, each.kw_only) for each in dataclasses.fields(cls)],
        "match": vars(cls).get("__match_args__"),
        "slots": vars(cls).get("__slots__"),
        "hash": cls.__hash__ is None,
        "methods": sorted(name for name in vars(cls) if name not in ("__annotations__", "__getattribute__")),
        "names": sorted((one.__module__, one.__qualname__) for name, one in _members(cls) if _is_named(name, one)),
        "scopes": [each.__globals__["__name__"] for each in (cls.__init__, cls.__hash__) if inspect.isfunction(each)],
    }
    objects = list(_objects(cls))
    first = next((each.name for each in dataclasses.fields(cls)), "x")
    facts["texts"] = [_text(each) for each in objects]
    for name in ("__eq__", "__lt__", "__le__", "__gt__", "__ge__"):
        relation = getattr(operator, name)
        facts[name] = [_told(lambda p=pair, r=relation: r(*p)) for pair in itertools.product(objects, repeat=2)]
    facts["hashes"] = [_told(lambda each=each: _of_values(hash(each), each)) for each in objects]
    if not facts["fields"] and facts["slots"] is not None:  # Python's own fails for a name of no field
        return facts
    facts["set"] = [_told(lambda each=each: setattr(copy.copy(each), first, 1)) for each in objects]
    facts["deleted"] = [_told(lambda each=each: delattr(copy.copy(each), first)) for each in objects]
    facts["replaced"] = [_told(lambda each=each: _text(dataclasses.replace(each, x=5))) for each in objects]
    facts["copied"] = [_told(lambda each=each: _text(copy.deepcopy(each))) for each in objects]
    return facts


def _members(cls: Any) -> Iterator[tuple[str, Any]]:
    """What the class has, after the first use of each of its methods."""
    return ((name, vars(cls)[name]) for name in sorted(vars(cls)) if hasattr(cls, name))


def _is_named(name: str, member: object) -> bool:
    """Whether it is a method that is named after its class, as those of all frozen classes are not."""
    of_all = ("__getstate__", "__setstate__", "__setattr__", "__delattr__")
    return inspect.isfunction(member) and name not in of_all


def _of_values(number: int, thing: object) -> object:
    """A hash, or that it is of the object's identity."""
    return "identity" if number == object.__hash__(thing) else number


def _text(thing: object) -> object:
    """The state of an object, and how it is printed; the text that there is in place of one."""
    if isinstance(thing, str):
        return thing
    state = {each.name: getattr(thing, each.name, None) for each in dataclasses.fields(thing)}  # type: ignore[arg-type]
    shown = _told(lambda: repr(thing))
    return str(state), "an object" if " object at " in str(shown) else shown


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_class_is_what_pythons_decorator_makes(make: Make) -> None:
    compared = 0
    for options in SENSIBLE:
        try:
            witness = make(pythons(**options))
        except TypeError:  # what Python refuses is no class
            continue
        assert _facts(make(OURS(**options))) == _facts(witness), options
        compared += 1
    assert compared > len(SENSIBLE) / 4


def test_without_parameters_it_takes_the_class() -> None:
    assert _facts(_points(OURS)) == _facts(_points(pythons))


@OURS(frozen=True, slots=True)
class Kept:
    """A frozen class with slots, whose objects Python restores by a method of the class."""

    first: int
    second: object = None


def test_objects_are_pickled() -> None:
    kept = Kept(1, (2, 3))
    assert pickle.loads(pickle.dumps(kept)) == kept


@pytest.mark.parametrize("name", ["first", "other"])
def test_frozen_objects_refuse_a_change(name: str) -> None:
    kept = Kept(1)
    for change in (lambda: setattr(kept, name, 2), lambda: delattr(kept, name)):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"field '{name}'"):
            change()
    assert kept.first == 1


class _Noting:
    """A class that notes which attributes are set and deleted."""

    noted: ClassVar[list[str]] = []

    def __setattr__(self, name: str, value: object) -> None:
        self.noted.append(f"set {name}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self.noted.append(f"delete {name}")
        object.__delattr__(self, name)


@pytest.mark.parametrize("decorator", [OURS, pythons])
def test_a_class_of_a_frozen_one_has_attributes_of_its_own(decorator: Any) -> None:
    @decorator(frozen=True)
    class First(_Noting):
        first: int

    @decorator(frozen=True)
    class Second(First):
        second: int

    class Third(Second):
        """No dataclass."""

    thing: Any = Third(1, 2)
    _Noting.noted.clear()
    thing.third = 3
    del thing.third
    for name in ("first", "second"):
        for change in (lambda each: setattr(thing, each, 2), lambda each: delattr(thing, each)):
            with pytest.raises(dataclasses.FrozenInstanceError, match=f"field '{name}'"):
                change(name)
    assert _Noting.noted == ["set third", "delete third"]


def test_an_object_in_itself_is_printed() -> None:
    ring = _single(OURS)(None)
    ring.value = [ring]
    assert repr(ring) == f"{type(ring).__qualname__}(value=[...])"


def _texts_compiled(act: Callable[[], object]) -> int:
    """How many texts Python compiles for a call."""
    seen = []

    def note(_: object, event: str, function: object) -> None:
        if event == "c_call" and function in (exec, compile):
            seen.append(function)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return len(seen)


@pytest.fixture
def nothing_prepared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No text is compiled as a test begins: they are in no module, and no other test has asked for them."""
    monkeypatch.setattr(texts, "prepared_name", lambda _: "of no text")
    texts.method_code.cache_clear()
    yield
    texts.method_code.cache_clear()


@pytest.mark.usefixtures("nothing_prepared")
def test_a_text_is_compiled_at_its_first_use() -> None:
    options = {"frozen": True, "slots": True, "order": True}
    made: list[Any] = []
    assert _texts_compiled(lambda: made.append(_points(OURS(**options)))) == 0
    for first in (1, 0):
        assert _texts_compiled(lambda: made.append(made[0](1))) == first
    for first in (1, 0):
        assert _texts_compiled(lambda: hash(made[1])) == first
    assert _texts_compiled(lambda: _points(pythons(**options))) >= 5  # the witness counts


@pytest.mark.usefixtures("nothing_prepared")
def test_a_method_of_a_base_is_compiled_once() -> None:
    base = _points(OURS)
    child = type("Child", (base,), {})
    assert _texts_compiled(lambda: child(1)) == 1
    assert _texts_compiled(lambda: (child(1), base(1))) == 0
    assert inspect.isfunction(vars(base)["__init__"])
    assert "__init__" not in vars(child)


@pytest.mark.usefixtures("nothing_prepared")
def test_one_text_is_compiled_for_classes_that_differ_in_names() -> None:
    @OURS(frozen=True)
    class First:
        """Its defaults and names are others than the next one's."""

        a: int
        b: str = "a"
        c: list[int] = field(default_factory=list, kw_only=True)

    @OURS(frozen=True)
    class Second:
        """Has a field called as a number that the text had for one."""

        _1: int = 3
        x: int = 4
        c: set[int] = field(default_factory=set, kw_only=True)

    assert _texts_compiled(lambda: First(1)) == 1
    assert _texts_compiled(Second) == 0
    assert (First(1), Second(2, c={1})) == (First(1, "a", c=[]), Second(_1=2, x=4, c={1}))
    assert (repr(First(b="b", a=2)), repr(Second())) == (
        f"{First.__qualname__}(a=2, b='b', c=[])",
        f"{Second.__qualname__}(_1=3, x=4, c=set())",
    )
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        First()


def test_a_field_without_a_default_after_one_with_it_is_refused() -> None:
    @OURS
    class Wrong:
        """What type checkers refuse, too."""

        a: int = 1
        b: int  # type: ignore[misc]

    with pytest.raises(TypeError, match="non-default argument 'b' follows default argument"):
        Wrong(1, 2)


def test_a_class_outlives_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """As programs do that end, or import a module again."""
    single = _single(OURS)
    monkeypatch.delitem(sys.modules, single.__module__)
    assert single(1) == single(1)
