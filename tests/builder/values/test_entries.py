"""Sequences of objects of a kernel, place by place against a tuple of Python's."""

from __future__ import annotations

import itertools

import pytest

from nvbackend import DiagnosticError
from nvbackend.builder.values.entries import Entries


class Alike:
    """Equal to everything, as a value is whose `==` is a value of the kernel."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "alike"


class Row(Entries[Alike]):
    def __init__(self, length: int) -> None:
        self._entries = tuple(Alike() for _ in range(length))

    def __repr__(self) -> str:
        return "a row"


LENGTH = 3
PLACES = (None, *range(-LENGTH - 2, LENGTH + 3))


@pytest.mark.parametrize("length", range(1, LENGTH + 1))
def test_an_entry_is_where_a_tuple_has_it(length: int) -> None:
    row = Row(length)
    entries = tuple(row)
    assert len(row) == len(entries) == length
    for first, last, step in itertools.product(PLACES, PLACES, (None, -2, -1, 1, 2)):
        assert [*map(id, row[first:last:step])] == [*map(id, entries[first:last:step])]
    for place in PLACES[1:]:
        try:
            wanted = entries[place]
        except IndexError:
            with pytest.raises(IndexError) as caught:
                row[place]
            (diagnostic,) = caught.value.diagnostics  # type: ignore[attr-defined]
            assert diagnostic.message == f"a row has no entry {place}"
            assert diagnostic.fix == f"take one from 0 to {length - 1}"
        else:
            assert row[place] is wanted


def test_the_place_is_that_of_the_very_object() -> None:
    row = Row(LENGTH)
    numbers = range(LENGTH)
    for first, last, place in itertools.product(PLACES[1:], PLACES, numbers):
        within = [number for number in numbers if number in numbers[first:last]]
        if place in within:
            assert row.index(row[place], first, last) == place
        else:
            with pytest.raises(ValueError, match=r"a row has no entry alike\n.*\n.*fix: look for one of its entries"):
                row.index(row[place], first, last)
    for place in numbers:
        assert row.index(row[place]) == place
    with pytest.raises(ValueError, match="a row has no entry alike"):
        row.index(Alike())


@pytest.mark.parametrize(("index", "shown"), [("x", "'x'"), (1.0, "1.0"), ((0, 1), "(0, 1)"), (slice("x"), "slice")])
def test_an_index_is_an_integer_or_a_slice(index: object, shown: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        Row(LENGTH)[index]
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message.startswith(f"a row has no entry {shown}")
    assert diagnostic.fix == "take it by an integer, or several by a slice of integers"
