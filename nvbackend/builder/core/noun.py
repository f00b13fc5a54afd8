"""The base of the nouns of `k`: a few calls, and a diagnostic for a call that does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from nvbackend.builder.core.core import Core
from nvbackend.diagnostics import MissingAttribute, Rule, Uncopied, misspelt

UNKNOWN = Rule(
    id="call.unknown",
    message="{call} does not exist",
    fix="{advice}",
    why="Nothing of this name can be emitted.",
    reference="the calls of a builder, by noun: docs/api.md",
)
NOT_A_CALL = Rule(
    id="call.noun",
    message="{noun} {problem}: it holds the calls {calls}",
    fix="{advice}",
    why="A noun has several instructions, and this does not say which.",
    reference="the calls of a builder, by noun: docs/api.md",
)
_MOST = 3


class Noun(Uncopied):
    """One noun of the PTX ISA, as an attribute of `k`."""

    __noun__: ClassVar[str]
    """Its name on `k`."""
    __usual__: ClassVar[str]
    """The call that a user probably means by the noun itself."""
    __number__: ClassVar[str | None] = None
    """The number that a user probably means by the noun itself."""

    def __init__(self, k: Core) -> None:
        self._k = k

    def __repr__(self) -> str:
        calls = _public(self)
        shown = ", ".join(calls[:_MOST]) + (f" and {len(calls) - _MOST} more" if len(calls) > _MOST else "")
        return f"<k.{self.__noun__}: the calls {shown}>"

    if not TYPE_CHECKING:  # it would make a type checker accept every name, every value and every operator

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name, f"k.{self.__noun__}", {})

        def __setattr__(self, name: str, value: object) -> None:
            """Raises call.noun, except for a noun's own attributes."""
            if not name.startswith("_"):
                refuse(self, f"takes no attribute {name!r}", "keep it in a variable of your own")
            object.__setattr__(self, name, value)

        def __delattr__(self, name: str) -> NoReturn:
            """Raises call.noun."""
            refuse(self, f"keeps its attribute {name!r}", f"leave k.{self.__noun__} as it is")

        def __call__(self, *_: object, **__: object) -> NoReturn:
            """Raises call.noun."""
            refuse(self, "is not a call", f"call one of them, such as k.{self.__noun__}.{self.__usual__}(...)")

        def __bool__(self, *_: object) -> NoReturn:  # noqa: PLE0304
            """Raises call.noun, as every use of a noun as a number does."""
            refuse(self, "is not a number", f"use {self.__number__ or 'what one of its calls returns'}")

        __index__ = __int__ = __float__ = __bool__
        __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __bool__
        __truediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __bool__
        __hash__ = object.__hash__


def refuse(noun: Noun, problem: str, advice: str) -> NoReturn:
    """Raises call.noun; `problem` follows the name of the noun."""
    NOT_A_CALL.fail(noun=f"k.{noun.__noun__}", problem=problem, calls=", ".join(_public(noun)), advice=advice)


def missing(owner: object, name: str, place: str, nouns: Mapping[str, Noun]) -> AttributeError:
    """The error for a name that `owner`, written `place`, does not have; `nouns` are the nouns that it has."""
    bare = name.removeprefix("__")  # CUDA writes many names so: __syncthreads
    if name.endswith("__") or bare.startswith("_"):
        return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)
    own = {call: f"{place}.{call}" for call in _public(owner)}
    alone = [f"k.{noun}.{bare}" for noun, owned in nouns.items() if bare in _public(owned)]
    instead = _instead(owner, place, nouns)
    if written := instead.get(name) or instead.get(bare) or (alone[0] if len(alone) == 1 else ""):
        advice = f"use {written}"
    else:
        known = {
            **{f"{noun}_{call}": f"k.{noun}.{call}" for noun, owned in nouns.items() for call in _public(owned)},
            **own,
        }
        near = alone or _near(bare, {**known, **{noun: f"k.{noun}" for noun in nouns}})
        advice = _asked(near) or f"use a call that {place} has: {', '.join(own.values())}"
    return MissingAttribute([UNKNOWN.diagnose(call=f"{place}.{name}", advice=advice)])


def _instead(owner: object, place: str, nouns: Mapping[str, Noun]) -> dict[str, str]:
    """What to write for names that `owner` never had, or has no more."""
    from nvbackend.builder.core.old_calls import INVERSES, OF_MATH, OLD_CALLS

    of_nouns = {
        written: f"k.{noun}.{call}"
        for noun, owned in nouns.items()
        for call in _public(owned)
        for written in (f"{noun}_{call}", f"{noun}_{call}s")
    }
    math = owner if place == "k.math" else nouns.get("math")
    of_c = {f"{call}f": f"k.math.{call}" for call in _public(math)}  # as C spells functions of f32
    foreign = {
        written: advice
        for call, advice in _foreign(place.removeprefix("k").removeprefix(".")).items()
        for written in ((call, f"{call}f") if call in OF_MATH or call in INVERSES else (call,))
    }
    return {**of_c, **of_nouns, **foreign, **(OLD_CALLS if nouns else {})}


def _foreign(noun: str) -> Mapping[str, str]:
    """What to write for the names of others that are asked for under `noun`, or on `k` itself where it is empty."""
    from nvbackend.builder.core.old_calls import INVERSES, OF_K, OF_MATH, OF_NOUNS, OF_OTHERS

    if noun:
        return {**OF_MATH, **INVERSES} if noun == "math" else OF_NOUNS.get(noun, {})
    return {**OF_MATH, **INVERSES, **OF_OTHERS, **OF_K}


def _near(name: str, known: Mapping[str, str]) -> list[str]:
    """The calls of which `name` is a misspelling, or the first words."""
    shortened = [other for other in known if other.startswith(f"{name}_")]
    return [known[other] for other in misspelt(name, known) or shortened]


def _asked(near: Sequence[str]) -> str:
    """The calls that are spelled much alike; only the user knows whether one of them is meant."""
    return f"did you mean {' or '.join(near[:_MOST])}? All calls are in docs/api.md" if near else ""


def _public(owner: object) -> list[str]:
    return sorted(name for name in _names(owner) if not name.startswith("_"))


def _names(owner: object) -> Iterable[str]:
    """The names of methods and properties, without evaluating them."""
    return (
        name
        for cls in type(owner).__mro__
        for name, attribute in vars(cls).items()
        if callable(attribute) or isinstance(attribute, property)
    )


# -- of `k`, which has the nouns --------------------------------------------------------------------------------------


def nouns(k: object) -> dict[str, Noun]:
    """The nouns of a builder, by their names: also those that are made when they are asked for, which come last."""
    late = _late(k)
    every = [*(name for name in vars(k) if name not in late), *late]
    return {name: noun for name in every if isinstance(noun := getattr(k, name), Noun)}


def _late(k: object) -> list[str]:
    """The nouns of a builder that are made when they are asked for."""
    members = vars(type(vars(k).get("_late")))
    return [name for name, member in members.items() if isinstance(member, cached_property)]


def get_missing(k: object, name: str) -> object:
    """`__getattr__` of a builder: makes a noun that is late, and raises call.unknown for any other name."""
    if name not in _late(k):
        raise missing(k, name, "k", nouns(k))
    noun: object = getattr(vars(k)["_late"], name)
    object.__setattr__(k, name, noun)
    return noun


def names_in(k: object) -> list[str]:
    """`__dir__` of a builder: with the nouns that are late, which a prompt completes, too."""
    return sorted({*object.__dir__(k), *(name for name in _late(k) if not name.startswith("_"))})


def _noun(k: object, name: str) -> Noun | None:
    """The noun of a builder that is called so."""
    noun = getattr(k, name) if name in _late(k) else vars(k).get(name)
    return noun if isinstance(noun, Noun) else None


def set_attribute(k: object, name: str, value: object) -> None:
    """`__setattr__` of a builder: of a noun, refused by call.noun."""
    if (noun := _noun(k, name)) is not None:
        refuse(noun, "cannot be replaced", "choose another name for a value of your own")
    object.__setattr__(k, name, value)


def delete_attribute(k: object, name: str) -> None:
    """`__delattr__` of a builder: of a noun, refused by call.noun."""
    if (noun := _noun(k, name)) is not None:
        refuse(noun, "cannot be deleted", "leave it as it is")
    object.__delattr__(k, name)
