"""What the `repr` of a large record leaves out."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import pytest

from nvbackend.diagnostics.classes.brief import cut, short_repr


class Kind(enum.Enum):
    FIRST = 1


class Silent:
    """Has no truth value when it is compared, as values of a builder."""

    def __eq__(self, other: object) -> bool:
        raise TypeError

    __hash__ = None  # type: ignore[assignment]


@dataclass(repr=False)
class Record:
    """A field of each kind."""

    name: object
    rate: object = 1.5
    places: object = (1, 2)
    kind: object = Kind.FIRST
    parts: object = field(default_factory=lambda: [3])
    hidden: object = field(default=4, repr=False)

    __repr__ = short_repr


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({}, "Record(name='a')"),
        ({"rate": float("1.5"), "places": tuple(range(1, 3)), "parts": [3], "hidden": 5}, "Record(name='a')"),
        ({"rate": 1.25, "parts": []}, "Record(name='a', rate=1.25, parts=[])"),
        ({"places": [1, 2]}, "Record(name='a', places=[1, 2])"),
        ({"kind": 1}, "Record(name='a', kind=1)"),
        ({"rate": Kind.FIRST}, "Record(name='a', rate=Kind.FIRST)"),
    ],
)
def test_fields_that_differ_from_their_defaults_are_shown(values: dict[str, object], shown: str) -> None:
    assert repr(Record("a", **values)) == shown


def test_things_of_another_type_are_not_compared() -> None:
    assert repr(Record("a", rate=Silent())).startswith("Record(name='a', rate=<")


@pytest.mark.parametrize(("length", "most", "kept"), [(9, 10, 9), (10, 10, 10), (11, 10, 7)])
def test_what_is_cut_ends_in_dots(length: int, most: int, kept: int) -> None:
    text = "x" * length
    assert cut(text, most) == text[:kept] + "..." * (kept < length)


def test_a_long_field_and_a_long_record_are_cut() -> None:
    assert len(repr(Record("a" * 500))) == len("Record(name=)") + 80
    assert len(repr(Record("a" * 500, "b" * 500, "c" * 500, "d" * 500))) == 300
