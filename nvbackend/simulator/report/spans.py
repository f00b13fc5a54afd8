"""Stretches of time, as sorted pairs of a begin and an end."""

from __future__ import annotations

from collections.abc import Iterable

Spans = list[tuple[int, int]]


def union(spans: Iterable[tuple[int, int]]) -> Spans:
    """The same time in stretches that do not touch."""
    found: Spans = []
    for start, end in sorted(one for one in spans if one[1] > one[0]):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def without(whole: Spans, holes: Spans) -> Spans:
    """The time of `whole` that is not in `holes`, both of them stretches that do not touch."""
    found: Spans = []
    for start, end in whole:
        at = start
        for first, last in holes:
            if last > at and first < end:
                if first > at:
                    found.append((at, first))
                at = max(at, last)
        if at < end:
            found.append((at, end))
    return found


def common(one: Spans, other: Spans) -> int:
    """How much time is in both."""
    return length(one) - length(without(one, other))


def length(spans: Spans) -> int:
    """How much time that is."""
    return sum(end - start for start, end in spans)


def most_at_once(spans: Iterable[tuple[int, int]]) -> int:
    """How many of them, at most, hold one moment."""
    changes = sorted(change for start, end in spans for change in ((start, 1), (end, -1)))
    most = count = 0
    for _, change in changes:
        count += change
        most = max(most, count)
    return most
