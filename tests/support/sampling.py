"""Which variants of a parametrised test are in the ordinary run, where all of them take long.

`@pytest.mark.sampled(4)`, or a module's `pytestmark`, keeps one of four variants, at least FEWEST, and where there are
several axes every value of each; the others are exhaustive. The test's name alone chooses them. What needs a GPU stays
as it is.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

import pytest

FEWEST = 2
Places = Mapping[int, object]
"""The place on each axis of a variant, which is an argument of `parametrize` or several that it gives together."""


def leave_to_slices(items: Iterable[pytest.Item]) -> None:
    """Make exhaustive what is not in the ordinary run."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        is_sampled = item.get_closest_marker("sampled") is not None and hasattr(item, "callspec")
        if is_sampled and not any(item.get_closest_marker(name) for name in ("exhaustive", "gpu")):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, variants in tests.items():
        marker = variants[0].get_closest_marker("sampled")
        assert marker is not None
        kept = sample(name, [places_of(variant) for variant in variants], *marker.args)
        for place, variant in enumerate(variants):
            if place not in kept:
                variant.add_marker(pytest.mark.exhaustive(seconds=marker.kwargs.get("seconds", 1)))


def places_of(variant: pytest.Item) -> Places:
    """By the names that `parametrize` gives; the numbers of `callspec.indices` are others for every variant."""
    return dict(enumerate(variant.callspec._idlist))  # type: ignore[attr-defined]


def sample(name: str, variants: Sequence[Places], one_of: int) -> set[int]:
    """The variants that are kept, by their place: every value of each of several axes, and one of so many in all."""
    order = random.Random(name).sample(range(len(variants)), len(variants))
    values = {axis: {variant[axis] for variant in variants} for axis in variants[0]}
    axes = [axis for axis, found in values.items() if len(found) < len(variants)]
    left = {(axis, place) for axis in axes for place in values[axis]}
    kept: set[int] = set()
    while left:
        best = max(order, key=lambda number: len(left & variants[number].items()))
        kept.add(best)
        left -= variants[best].items()
    wanted = max(FEWEST, -(-len(variants) // one_of))
    for place in order:
        if len(kept) >= min(wanted, len(variants)):
            break
        kept.add(place)
    return kept
