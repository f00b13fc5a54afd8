"""What is printed of runs: how far they are, and at the end a table and the problems that are not clean."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping

from tests.sanitizer.heard import Outcome, Result

TENTHS = 10
"""So many lines of progress."""


class Progress:
    """Says now and then how many problems of a tool have ended."""

    def __init__(self, tool: str, total: int) -> None:
        self._tool, self._total, self._ended, self._not_clean = tool, total, 0, 0

    def __call__(self, results: list[Result]) -> None:
        before = self._ended * TENTHS // self._total
        self._ended += len(results)
        self._not_clean += sum(one.outcome is not Outcome.CLEAN for one in results)
        if self._ended * TENTHS // self._total > before:
            told = f"{self._tool}: {self._ended} of {self._total}, {self._not_clean} not clean"
            sys.stderr.write(f"{told}\n")
            sys.stderr.flush()


def table(results: Mapping[str, list[Result]]) -> Iterator[str]:
    """How many problems of each tool came to what, in Markdown."""
    heads = ["tool", "problems", *(outcome.value for outcome in Outcome)]
    yield f"| {' | '.join(heads)} |"
    yield f"| --- |{' ---: |' * (len(heads) - 1)}"
    for tool, some in results.items():
        counts = Counter(one.outcome for one in some)
        yield f"| {tool} | {len(some)} | {' | '.join(str(counts[outcome]) for outcome in Outcome)} |"


def not_clean(results: Mapping[str, list[Result]]) -> Iterator[str]:
    """Each problem that was run and is not clean, with what was said of it."""
    for tool, some in results.items():
        for name, outcome, text in some:
            if outcome not in (Outcome.CLEAN, Outcome.NOT_REACHED):
                yield from ("", f"{tool}, {outcome.value}: {name}", *(f"    {line}" for line in text))
