"""The axes of a row family: the check that a choice is one the family has rows for."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

Choice = TypeVar("Choice")


class NoSuchRow(LookupError):
    """A row was asked for that no loop over the axes makes.

    Not for users: whoever takes a request from one checks its rule first.
    """


def chosen(axis: str, value: Choice, legal: Collection[Choice]) -> Choice:
    """`value` if it is one of `legal`, else NoSuchRow naming the axis and what it takes."""
    if value not in legal:
        raise NoSuchRow(f"{axis} is {value!r}, and there are rows only for {', '.join(map(repr, legal))}")
    return value


def spelled(*parts: str | None) -> str:
    """Qualifiers joined by dots; an axis that is left out gives None and no qualifier."""
    return ".".join(part for part in parts if part is not None)
