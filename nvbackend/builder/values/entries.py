"""Sequences of objects of a kernel: indices as those of Python's sequences, with diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from nvbackend.diagnostics import MissingEntry, Rule, printed

ENTRY = Rule(
    id="sequence.entry",
    message="{owner} has no entry {problem}",
    fix="{advice}",
    why="There is no such entry to return.",
    reference="Python Language Reference, IndexError and ValueError",
)
_Entry = TypeVar("_Entry")


class Entries(Sequence[_Entry]):
    """A sequence whose entries differ as objects: `==` of two values of a kernel is a value of the kernel."""

    _entries: tuple[_Entry, ...]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[_Entry]:
        return iter(self._entries)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and not -len(self) <= index < len(self):
            self._refuse(str(index), f"take one from 0 to {len(self) - 1}")
        try:
            return self._entries[index]
        except TypeError:
            self._refuse(printed(index), "take it by an integer, or several by a slice of integers")

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """The place of this very object. Raises sequence.entry where no entry is it."""
        for place in range(*slice(start, stop).indices(len(self))):
            if self._entries[place] is value:
                return place
        self._refuse(printed(value), "look for one of its entries")

    def _refuse(self, problem: str, advice: str) -> NoReturn:
        raise MissingEntry([ENTRY.diagnose(owner=self, problem=problem, advice=advice)])
