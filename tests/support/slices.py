"""The exhaustive tests in slices of bounded time, so that each commit runs one of them.

A slice is chosen by the commit's hash, so the same commit always runs the same one and all of them get their turn.
Tests that need a GPU are in none: where there is one, `-m "gpu and exhaustive"` runs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SLICE_S = 50.0
"""Seconds of one core that a slice is meant to take."""
USUAL_S = 6.0
"""Seconds of one core that a test takes which says nothing else: `@pytest.mark.exhaustive(seconds=40)`."""
_HASH = re.compile(r"[0-9a-f]{7,64}")
_NUMBERED = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True)
class Choice:
    """Slice number `index` of `count`, counted from 1, and the tests in it, the longest first."""

    index: int
    count: int
    tests: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        return f"slice {self.index} of {self.count}: {len(self.tests)} tests, about {self.seconds:.0f} s of one core"


def cut(costs: dict[str, float], count: int) -> list[list[str]]:
    """The tests in `count` slices of about the same time: the longest first, each to the slice that takes least."""
    slices: list[list[str]] = [[] for _ in range(count)]
    seconds = [0.0] * count
    for test in sorted(costs, key=lambda one: (-costs[one], one)):
        least = min(range(count), key=lambda place: (seconds[place], place))
        slices[least].append(test)
        seconds[least] += costs[test]
    return slices


def slices_of(costs: dict[str, float]) -> int:
    """How many slices there are, so that none takes much longer than SLICE_S."""
    return max(1, -(-int(sum(costs.values())) // int(SLICE_S)))


def chosen(costs: dict[str, float], text: str) -> Choice:
    """The slice that `text` asks for: `3/30`, or a commit's hash. Raises ValueError for anything else."""
    numbered = _NUMBERED.fullmatch(text)
    if numbered:
        index, count = int(numbered[1]), int(numbered[2])
    elif _HASH.fullmatch(text):
        count = slices_of(costs)
        index = int(text, 16) % count + 1
    else:
        raise ValueError(f"{text!r} is neither a slice such as 3/30 nor the hash of a commit")
    if not 1 <= index <= count:
        raise ValueError(f"there is no slice {index} of {count}: they are counted from 1")
    tests = cut(costs, count)[index - 1]
    return Choice(index, count, tuple(tests), sum(costs[one] for one in tests))
