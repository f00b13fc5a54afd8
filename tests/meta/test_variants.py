"""Which variants of a test on both devices are in the ordinary run."""

from __future__ import annotations

import itertools

import pytest

from tests.support.devices import FEW, SAMPLE, ordinary


@pytest.mark.parametrize("sizes", [(14,), (7, 4), (3, 3, 2), (1,), (2,)])
def test_each_value_of_a_parameter_is_there(sizes: tuple[int, ...]) -> None:
    names = "abc"[: len(sizes)]
    variants: list[dict[str, object]] = [
        dict(zip(names, values, strict=True)) for values in itertools.product(*map(range, sizes))
    ]
    chosen = ordinary(variants)
    for place, size in enumerate(sizes):
        assert {variants[number][names[place]] for number in chosen} == set(range(size))
    assert len(chosen) <= sum(sizes)


def test_of_many_values_there_is_a_sample() -> None:
    variants: list[dict[str, object]] = [{"many": number, "kind": number % 2} for number in range(FEW + 10)]
    chosen = ordinary(variants)
    assert {variants[number]["kind"] for number in chosen} == {0, 1}
    assert (FEW + 10) // SAMPLE <= len(chosen) <= (FEW + 10) // SAMPLE + 2


def test_a_test_without_parameters_stays() -> None:
    assert ordinary([{}]) == {0}
