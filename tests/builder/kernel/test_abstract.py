"""Of which abstract classes a class is: what issubclass says, without asking it, and without making it remember."""

from __future__ import annotations

import abc
import collections
import gc
import numbers
import sys
import types
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence, Sized
from typing import Any

import pytest

from nvbackend.builder.kernel.again import abstract
from nvbackend.builder.kernel.again.abstract import ABSTRACT, Registrations


def above(cls: type, look: Registrations | None = None) -> list[type]:
    return (look or Registrations()).of(cls)[1]


def by_python(cls: type) -> list[type]:
    return [each for each in ABSTRACT if issubclass(cls, each)]


def nothing(*_: object) -> None:
    """A method."""


def made(*bases: type, **members: object) -> type:
    """A class that Python has not been asked about."""
    return types.new_class("Made", bases, {}, lambda names: names.update(members))


def classes_below(cls: type, found: dict[type, None]) -> dict[type, None]:
    below: list[type] = type.__subclasses__(cls)
    for each in below:
        if each not in found:
            found[each] = None
            classes_below(each, found)
    return found


@pytest.fixture(autouse=True, scope="module")
def _alone() -> None:
    """Classes of other tests are gone, and with them their hooks. After thousands of tests that takes long."""
    gc.collect()


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    """What was found out about classes of other tests."""
    abstract._asked.cache_clear()


@pytest.fixture
def gone() -> Iterator[None]:
    """The classes of this test are gone after it."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def look() -> Registrations:
    """One for all classes that no one has asked about: it is a walk over all that other tests have made, too."""
    return Registrations()


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python is not asked."""

    def asked(cls: type, _token: object) -> list[type]:
        raise AssertionError(cls)

    monkeypatch.setattr(abstract, "_asked", asked)


def test_each_class_is_of_those_that_issubclass_says() -> None:
    classes = [each for each in classes_below(object, {}) if type(each) in (type, abc.ABCMeta)]
    assert len(classes) > 500
    look = Registrations()
    told = [above(cls, look) for cls in classes]
    assert told == [by_python(cls) for cls in classes]


METHODS = sorted({name for each in ABSTRACT for name in each.__abstractmethods__} | {"close", "__iter__", "aclose"})
STRUCTURES: dict[str, Callable[[], type]] = {
    **{name: lambda name=name: made(**{name: nothing}) for name in METHODS},  # type: ignore[misc]
    **{f"all but {name}": lambda name=name: made(**dict.fromkeys({*METHODS} - {name}, nothing)) for name in METHODS},  # type: ignore[misc]
    "a method that is None": lambda: made(__hash__=None, __len__=None),
    "a method of a base": lambda: made(made(__len__=nothing)),
    "a method of a base that is None": lambda: made(made(__len__=nothing), __len__=None),
    "a base": lambda: made(MutableMapping),
    "a base that is registered": lambda: made(dict),
    "two": lambda: made(int, Sized),
    "of the library": lambda: made(collections.OrderedDict),
}


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize("what", STRUCTURES)
def test_methods_and_bases_say_it(what: str, look: Registrations) -> None:
    cls = STRUCTURES[what]()
    told = above(cls, look)
    assert told == by_python(cls)


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize("cls", [int, bool, str, tuple, list, range, zip, type, object, float, complex, dict])
def test_classes_of_c_are_not_asked_about_once_more(cls: type, look: Registrations) -> None:
    expected = by_python(cls)
    assert above(cls, look) == expected


def test_a_look_leaves_no_answer_with_python() -> None:
    cls = made()
    assert above(cls) == [Hashable]
    setattr(cls, "__len__", nothing)  # noqa: B010
    assert issubclass(cls, Sized)


def test_what_python_remembers_counts_and_not_what_the_class_is_now() -> None:
    """As `isinstance` does, which a kernel's function may ask."""
    cls, other, look = made(), made(__contains__=nothing), Registrations()
    assert not issubclass(cls, Sized)
    assert issubclass(other, Container)
    setattr(cls, "__len__", nothing)  # noqa: B010
    delattr(other, "__contains__")
    assert (above(cls, look), above(other, look)) == ([Hashable], [Hashable, Container])
    assert (by_python(cls), by_python(other)) == ([Hashable], [Hashable, Container])


def test_registrations_are_told_from_both_classes() -> None:
    class Above(abc.ABC):  # noqa: B024
        pass

    class Below:
        pass

    look, known = Registrations(), [Hashable]
    assert look.of(Above) == look.of(Below) == ([], known)
    Above.register(Below)
    assert look.of(Above) == ([Below], known)
    numbers.Rational.register(Below)
    more = [numbers.Number, numbers.Complex, numbers.Real, numbers.Rational]
    assert look.of(Below) == ([], [*known, *more])


def test_registrations_on_classes_further_below_count() -> None:
    """Of any metaclass that takes them."""

    class Meta(abc.ABCMeta):
        pass

    class Above(metaclass=Meta):
        pass

    lowest, cls = made(made(Above)), made()
    lowest.register(cls)  # type: ignore[attr-defined]
    assert issubclass(cls, Above)
    assert Registrations().of(Above) == ([cls], [Hashable])


def test_one_look_is_enough_for_many_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = list[Registrations](), Registrations._look
    monkeypatch.setattr(Registrations, "_look", lambda self: [looks.append(self), look(self)])
    registrations = Registrations()
    for cls in (made(), made(__len__=nothing)):
        registrations.of(cls)
    assert looks == [registrations]


def hooked(base: Any, answer: Callable[[type], Any]) -> type:
    return made(base, __subclasshook__=classmethod(lambda _, other: answer(other)))


@pytest.mark.usefixtures("gone")
def test_a_class_below_says_by_a_hook_what_is_of_it() -> None:
    """Everything is of it, and so of Python's class above it."""
    counted, other = made(), made()
    own = hooked(Sized, lambda cls: cls is counted or NotImplemented)
    assert above(counted) == by_python(counted) == [Hashable, Sized]
    assert above(other) == by_python(other) == [Hashable]
    del own


@pytest.mark.usefixtures("gone")
def test_a_hook_that_a_class_below_inherits_from_elsewhere_counts() -> None:
    cls = made()
    mixin = made(__subclasshook__=classmethod(lambda _, other: other is cls or NotImplemented))
    own = made(mixin, Sized)
    assert above(cls) == by_python(cls) == [Hashable, Sized]
    del own


@pytest.mark.usefixtures("gone")
def test_a_class_below_whose_metaclass_says_what_is_of_it_counts() -> None:
    cls = made()

    class Saying(abc.ABCMeta):
        def __subclasscheck__(self, other: type) -> bool:
            return other is cls

    own = Saying("Own", (Iterable,), {"__iter__": nothing})
    assert above(cls) == by_python(cls) == [Hashable, Iterable]
    del own


def test_what_is_registered_on_a_registered_abstract_class_counts() -> None:
    class Between(abc.ABC):  # noqa: B024
        """On no class of Python's by itself."""

    cls = made()
    Mapping.register(Between)
    Between.register(cls)
    assert above(cls) == by_python(cls)
    assert Mapping in above(cls)


def test_an_abstract_class_that_is_registered_on_another_counts_by_its_hook() -> None:
    class Counted(Sized):
        pass

    cls = made(Counted, __len__=nothing)
    Sequence.register(Counted)
    assert above(cls) == by_python(cls)
    assert Sequence in above(cls)


def test_other_hooks_of_another_python_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abstract, "_HOOKS_ARE_KNOWN", False)
    cls = made(__len__=nothing)
    assert above(cls) == [Hashable, Sized]
    setattr(cls, "__contains__", nothing)  # noqa: B010
    assert above(cls) == [Hashable, Sized], "Python remembers"


@pytest.mark.skipif(sys.version_info[:2] > (3, 13), reason="a newer Python may have other hooks, and is asked then")
def test_the_hooks_of_this_python_are_known() -> None:
    assert abstract._HOOKS_ARE_KNOWN
