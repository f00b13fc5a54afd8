"""What Python asks of any object, of one of every public class: its text, its length, its entries, a copy.

The `repr` says what the object is in a line or few that fit a screen. No exception comes out of the package's inside.
"""

from __future__ import annotations

import copy
import enum
import operator
import pickle
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import pytest

import nvbackend as nvb
from tests.api.public import names
from tests.api.things import SCENES
from tests.support.inside import is_inside

MOST, MOST_LINES = 300, 4
NOT_MADE = {"nvb.runtime.Compiled"}
"""A protocol."""
ODD: tuple[Any, ...] = (
    *(0, -1, 999, 10**30, 1.5, True, 1j, "x", b"x", None, (None, "x"), (1, 2), [1], {}, object, ..., nvb.f32),
    *(slice(None), slice("a"), slice(0, 2), nvb.Severity.ERROR),
)
MOST_ENTRIES = 999
OF_ONE: dict[str, Callable[[Any], object]] = {
    **{call.__name__: call for call in (hash, bool, len, repr, str, dir, int, float, abs, round, copy.copy)},
    **{call.__name__: call for call in (copy.deepcopy, operator.index, operator.neg, pickle.dumps)},
    "iter": lambda thing: [*islice(iter(thing), MOST_ENTRIES)],
    "unpack": lambda thing: [*islice((entry for entry in thing), MOST_ENTRIES)],
    "format": lambda thing: f"{thing:>3}",
    "format with a letter": lambda thing: f"{thing:q}",
    "reversed": lambda thing: [*islice(reversed(thing), MOST_ENTRIES)],
    "equal to itself": lambda thing: thing == thing,  # noqa: PLR0124
    "called": lambda thing: thing(),
    "new attribute": lambda thing: setattr(thing, "no_such_name", 1),
    "no attribute": lambda thing: delattr(thing, "no_such_name"),
    "keys": lambda thing: {**thing},
}
OF_TWO: dict[str, Callable[[Any, Any], object]] = {
    "in": lambda thing, odd: odd in thing,
    "[]": operator.getitem,
    "[] =": lambda thing, odd: operator.setitem(thing, odd, 0),
    "del []": operator.delitem,
    **{call.__name__: call for call in (operator.eq, operator.ne, operator.lt, operator.add, operator.mul)},
    "to its right": lambda thing, odd: odd + thing,
    "called with": lambda thing, odd: thing(odd),
}
OF_SEQUENCES: dict[str, Callable[[Any, Any], object]] = {
    "index": lambda thing, odd: thing.index(odd),
    "index from": lambda thing, odd: thing.index(thing[0], odd),
    "index up to": lambda thing, odd: thing.index(thing[-1], 0, odd),
    "count": lambda thing, odd: thing.count(odd),
}
OF_MAPPINGS: dict[str, Callable[[Any, Any], object]] = {
    "get": lambda thing, odd: thing.get(odd),
    "keys": lambda thing, odd: odd in thing.keys(),  # noqa: SIM118
    "values": lambda thing, odd: odd in thing.values(),
    "items": lambda thing, odd: (odd, odd) in thing.items(),
}
PYTHONS_OWN = ("FrozenInstanceError",)
"""A dataclass's own refusal, which says what is wrong."""


def mistake(call: Callable[[], object]) -> str:
    """What is wrong with how the call ends; empty for an answer, a diagnostic, and Python's own exception."""
    try:
        call()
    except nvb.DiagnosticError as error:
        inside = not str(error) or is_inside(traceback.extract_tb(error.__traceback__)[-1].filename)
        return f"{error!r} shows the inside" if inside else ""
    except Exception as error:  # noqa: BLE001
        frames = traceback.extract_tb(error.__traceback__)
        inside = any(is_inside(frame.filename) for frame in frames)
        return repr(error) if inside and type(error).__name__ not in PYTHONS_OWN else ""
    return ""


def mistakes(thing: Any) -> Iterator[str]:
    """Questions that do not end well."""
    kinds = (OF_TWO, True), (OF_SEQUENCES, isinstance(thing, Sequence)), (OF_MAPPINGS, isinstance(thing, Mapping))
    calls = [(name, partial(ask, thing)) for name, ask in OF_ONE.items()]
    for questions, are_asked in kinds:
        for name, ask in questions.items() if are_asked else ():
            calls += [(f"{name} of {odd!r}", partial(ask, thing, odd)) for odd in ODD]
    for name, call in calls:
        if wrong := mistake(call):
            yield f"{name}: {wrong}"


@pytest.fixture(scope="module")
def made() -> list[tuple[Any, str, list[str]]]:
    """Everything, with its `repr` at the time that it is made, and what goes wrong then."""
    asked: set[type] = set()
    found = []
    for thing in (thing for scene in SCENES for thing in scene()):
        is_new = type(thing) not in asked and not isinstance(thing, nvb.DiagnosticError | Warning)
        asked.add(type(thing))
        found.append((thing, repr(thing), [*mistakes(thing)] if is_new else []))
    return found


def test_it_fits_a_screen(made: list[tuple[Any, str, list[str]]]) -> None:
    long = {type(given): len(text) for given, text, _ in made if len(text) > MOST or text.count("\n") > MOST_LINES}
    assert long == {}


def test_it_says_more_than_an_address(made: list[tuple[Any, str, list[str]]]) -> None:
    assert sorted({text for _, text, _ in made if re.search(r" at 0x[0-9a-f]+>", text)}) == []


def test_every_public_class_is_looked_at(made: list[tuple[Any, str, list[str]]]) -> None:
    kinds = {type(given) for given, _, _ in made}
    classes = {name: given for name, given in names().items() if isinstance(given, type)}
    enums = {name for name, given in classes.items() if issubclass(given, enum.Enum)}
    assert [name for name, given in classes.items() if given not in kinds and name not in enums | NOT_MADE] == []


def test_no_exception_comes_from_inside(made: list[tuple[Any, str, list[str]]]) -> None:
    assert {type(given): wrong for given, _, wrong in made if wrong} == {}
