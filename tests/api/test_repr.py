"""The `repr` of every public class: a line or few that say what the object is, and fit a screen."""

from __future__ import annotations

import enum
import re
from typing import Any

import pytest

from tests.api.public import names
from tests.api.things import SCENES

MOST, MOST_LINES = 300, 4
NOT_MADE = {"nvb.runtime.Compiled"}
"""A protocol."""


@pytest.fixture(scope="module")
def made() -> list[tuple[Any, str]]:
    """Everything, with its `repr` at the time that it is made."""
    return [(given, repr(given)) for scene in SCENES for given in scene()]


def test_it_fits_a_screen(made: list[tuple[Any, str]]) -> None:
    long = {type(given): len(text) for given, text in made if len(text) > MOST or text.count("\n") > MOST_LINES}
    assert long == {}


def test_it_says_more_than_an_address(made: list[tuple[Any, str]]) -> None:
    assert sorted({text for _, text in made if re.search(r" at 0x[0-9a-f]+>", text)}) == []


def test_every_public_class_is_looked_at(made: list[tuple[Any, str]]) -> None:
    kinds = {type(given) for given, _ in made}
    classes = {name: given for name, given in names().items() if isinstance(given, type)}
    enums = {name for name, given in classes.items() if issubclass(given, enum.Enum)}
    assert [name for name, given in classes.items() if given not in kinds and name not in enums | NOT_MADE] == []
