"""Records: arguments of every kind are compared, each time that they may differ from those before."""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from nvbackend import DiagnosticError
from nvbackend.diagnostics import record, records


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Plain:
    """A class about whose objects nothing is known."""


class Other:
    """Another one."""


VALUES: dict[str, Any] = {
    "0": 0,
    "1": 1,
    "2": 2,
    "7": 7,
    "True": True,
    "1.5": 1.5,
    "None": None,
    "text": "a",
    "word": "abc",
    "red": Color.RED,
    "blue": Color.BLUE,
    "plain": Plain(),
    "other": Other(),
    "()": (),
    "(1,)": (1,),
    "(1, 2)": (1, 2),
    "('a',)": ("a",),
    "(None,)": (None,),
    "((1,),)": ((1,),),
    "(((1,),),)": (((1,),),),
    "(plain,)": (Plain(),),
    "(other,)": (Other(),),
}
FITS = {
    "flag": ("0", "1", "True"),
    "number": ("0", "1", "2", "7"),
    "real": ("0", "1", "2", "7", "1.5"),
    "name": ("text", "word"),
    "color": ("red", "blue"),
    "maybe": ("0", "1", "2", "7", "None"),
    "own": ("None", "plain"),
    "pair": ("(1, 2)",),
    "numbers": ("()", "(1,)", "(1, 2)"),
    "names": ("()", "('a',)"),
    "owns": ("()", "(plain,)"),
}
"""The values that each annotation below takes. Python's bool is an int, and None of these takes it for one."""


def fresh() -> Any:
    """A record that has seen no arguments yet."""

    @record
    @dataclass(frozen=True)
    class Asked:
        flag: bool = False
        number: int = 0
        real: float = 0.0
        name: str = ""
        color: Color = Color.RED
        maybe: int | None = None
        own: Plain | None = None
        pair: tuple[int, int] = (1, 2)
        numbers: tuple[int, ...] = ()
        names: tuple[str, ...] = ()
        owns: tuple[Plain, ...] = ()

    return Asked


def is_taken(asked: Any, field: str, value: str) -> bool:
    try:
        made = asked(**{field: VALUES[value]})
    except DiagnosticError:
        return False
    assert getattr(made, field) == VALUES[value]
    return True


@pytest.mark.parametrize("field", FITS)
def test_each_argument_is_judged_as_if_it_were_the_first(field: str) -> None:
    """Values pass in any order, one after each other one: what was accepted before says nothing of another kind."""
    asked = fresh()
    for before, value in itertools.product(VALUES, VALUES):
        assert is_taken(asked, field, before) == (before in FITS[field])
        assert is_taken(asked, field, value) == (value in FITS[field]), (before, value)
    for value in VALUES:
        assert is_taken(fresh(), field, value) == (value in FITS[field])


def nested(value: object, depth: int) -> object:
    return value if depth == 0 else (nested(value, depth - 1),)


@pytest.mark.parametrize(
    ("first", "second", "compared"),
    [
        (3, 4, 1),
        (1, 0, 1),
        (0, 2, 2),
        (2, 1, 2),
        (1.5, 2.5, 1),
        (None, None, 1),
        (True, False, 1),
        ("ab", "cd", 1),
        ("ab", "abc", 2),
        (Color.RED, Color.BLUE, 1),
        ((1,), (0,), 1),
        ((1,), (2,), 2),
        ((1,), (1, 1), 2),
        (Plain(), Plain(), 2),
        ((Plain(),), (Plain(),), 2),
        (nested(3, 1), nested(4, 1), 1),
        (nested(3, records._DEEPEST_LOOK), nested(4, records._DEEPEST_LOOK), 1),
        (nested(3, records._DEEPEST_LOOK + 1), nested(4, records._DEEPEST_LOOK + 1), 2),
    ],
)
def test_arguments_that_look_alike_are_compared_once(
    first: object, second: object, compared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(records, "wrong_arguments", lambda *call, again: asked.append(call) or [])

    @record
    @dataclass(frozen=True)
    class Holds:
        what: Any

    Holds(first), Holds(second)
    assert len(asked) == compared


def test_what_is_kept_of_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(records, "wrong_arguments", lambda *call, again: asked.append(call) or [])
    monkeypatch.setattr(records, "_MOST_LOOKS", 3)

    @record
    @dataclass(frozen=True)
    class Holds:
        what: Any

    for length in [*range(5), *range(5)]:
        Holds("a" * length)
    assert len(asked) == 5 + 2
