"""Which known names a wrong one is a misspelling of: by letters that are wrong, missing, too many or swapped."""

from __future__ import annotations

from collections.abc import Iterable

_LETTERS_OF_A_SLIP = 5
"""A slip of a letter is one in so many letters of a name: names that are shorter have one."""
_MOST_SLIPS = 2


def misspelt(name: str, known: Iterable[str]) -> list[str]:
    """The names of `known` that differ from `name` by a slip or two, nearest first; none for a name that is another's.

    Such a name is a guess: `sin` is as near to `sign` as to `son`. Messages ask whether it is meant.
    """
    most = min(_MOST_SLIPS, max(1, len(name) // _LETTERS_OF_A_SLIP))
    slips = {other: _slips(name.lower(), other.lower(), most) for other in known}
    return sorted((other for other, number in slips.items() if number <= most), key=lambda other: (slips[other], other))


def _slips(a: str, b: str, most: int) -> int:
    """The letters to change, add, drop or swap with the next one to make `b` of `a`; more than `most` if it is more."""
    if abs(len(a) - len(b)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(b) + 1))
    for row, letter in enumerate(a, 1):
        new = [row]
        for column, other in enumerate(b, 1):
            best = min(last[column] + 1, new[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == b[column - 2] and a[row - 2] == other:
                best = min(best, before[column - 2] + 1)
            new.append(best)
        before, last = last, new
    return last[-1]
