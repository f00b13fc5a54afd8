"""Values of parameters that keep to what the kernel assumes of several of them: `k.assume(n == 2 * m)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from nvbackend.dry_run.scenario.loop_code import Assumption
from nvbackend.dry_run.scenario.rounds import Rounds
from nvbackend.intrinsics.row.types import Scalar

Values = dict[str, int]
_TRIES = 4000
"""How many values are tried for one kernel and one run."""
_LATER = 17
"""How many values above the wished one are tried."""


class Relations:
    """What is assumed of `scalars`.

    The `candidates` of each are some numbers, and multiples of those with which the kernel's assumptions are made.
    """

    def __init__(
        self, rounds: Rounds, scalars: Mapping[str, Scalar], candidates: Callable[[Scalar], Sequence[int]]
    ) -> None:
        self._rounds = rounds
        self._scalars = scalars
        self.candidates = {name: candidates(scalar) for name, scalar in scalars.items()}
        for one in rounds.assumptions:
            several = {number * by for number in one.numbers for by in range(1, _LATER) if number > 1}
            for name in one.names & scalars.keys() if several else ():
                more = {number for number in several if number in scalars[name].values}
                self.candidates[name] = sorted(more.union(self.candidates[name]))
        self._left = _TRIES

    def completed(self, values: Mapping[str, int], fixed: Set[str]) -> Values | None:
        """`values`, with others for parameters that are not `fixed` where these break what is assumed; None for none.

        A value is one for which the two sides of a comparison are equal or differ by 1, or a candidate.
        """
        self._left -= 1
        broken = self._rounds.of(values).broken
        if not broken:
            return dict(values)
        free = sorted(broken[0].names & self._scalars.keys() - fixed)
        for name in free if self._left > 0 else ():
            for number in self._numbers(broken[0], values, name):
                found = self.completed({**values, name: number}, {*fixed, name})
                if found is not None:
                    return found
        return None

    def nearest(self, values: Mapping[str, int], wished: Mapping[str, int]) -> Values | None:
        """`values` with those that are `wished`, or, where there are none, the next greater ones."""
        found = dict(values)
        for number, name in enumerate(wished):
            before = {one for one, _ in zip(wished, range(number + 1), strict=False)}
            later = (one for one in self.candidates[name] if one > wished[name])
            several = [wished[name], *(one for one, _ in zip(later, range(_LATER), strict=False))]
            more = (self.completed({**found, name: one}, before) for one in several)
            best = next((one for one in more if one is not None), None)
            if best is None:
                return None
            found = best
        return found

    def _numbers(self, broken: Assumption, values: Mapping[str, int], name: str) -> Iterator[int]:
        """The values of a parameter that may mend an assumption, the likeliest first."""
        now, scalar = values[name], self._scalars[name]
        root = self._root(broken, values, name)
        if root is not None:
            yield from (one for one in (root, root + 1, root - 1) if one >= 0 and one in scalar.values)
            return
        others = [values[one] for one in broken.names - {name} if one in values]
        several = {*self.candidates[name], *(one * by for one in others for by in range(1, _LATER))}
        for one in sorted(several, key=lambda one: (abs(one - now), one)):
            if self._left <= 0:
                return
            self._left -= 1
            if one in scalar.values and broken not in self._rounds.of({**values, name: one}).broken:
                yield one

    def _root(self, broken: Assumption, values: Mapping[str, int], name: str) -> int | None:
        """The value for which both sides of a comparison are equal, where they differ by a multiple of it."""
        now = values[name]
        gaps = [self._rounds.gap(broken, {**values, name: now + step}) for step in (0, 1, 2)]
        if None in gaps:
            return None
        first, second, third = (one for one in gaps if one is not None)
        slope = second - first
        return now - first // slope if slope and third - second == slope and not first % slope else None
