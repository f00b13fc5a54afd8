"""Granules as bits of integers, against a list with a number for each granule."""

from __future__ import annotations

import random

import pytest

from nvbackend.dry_run.order.granules import Granules, Kept, Moved, Pages, granules, mask_of, numbers_of, single_bytes

MOST = 9000


def _some(draw: random.Random) -> list[int]:
    start, stop = sorted(draw.sample(range(MOST), 2))
    chance = draw.choice((0.2, 1))
    return [one for one in range(start, stop) if draw.random() < chance]


def _pages(numbers: list[int]) -> Pages:
    return granules(tuple(numbers), 1, 0).pages


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_is_what_a_list_has(seed: int) -> None:
    draw, kept, numbers = random.Random(seed), Kept(), [0] * MOST
    for _ in range(25):
        some, number = _some(draw), draw.randrange(6)
        there = {one: [at for at in some if numbers[at] == one] for one in range(6)}
        assert [(one, [*numbers_of(pages)]) for one, pages in kept.there(_pages(some))] == [
            (one, at) for one, at in there.items() if at
        ]
        assert kept.any(_pages(some)) == any(numbers[at] for at in some)
        assert [*numbers_of(kept.without(_pages(some)))] == there[0]
        kept.put(_pages(some), number)
        for at in some:
            numbers[at] = number
        if draw.random() < 0.05:
            kept.halve()
            numbers = [one for one in numbers for _ in range(2)]


@pytest.mark.parametrize("seed", range(40))
def test_an_access_has_the_granules_of_its_bytes(seed: int) -> None:
    draw = random.Random(seed)
    shift = draw.randrange(5)
    size = draw.choice((1, 2, 4, 700)) << shift
    addresses = tuple(draw.randrange(MOST) << shift for _ in range(draw.choice((1, 5, 32))))
    several, one = granules(addresses, size, shift), granules(addresses[0], size, shift)
    touched = [[*range(address >> shift, (address + size) >> shift)] for address in addresses]
    assert {*numbers_of(several.pages)} == {place for places in touched for place in places}
    assert [*numbers_of(one.pages)] == touched[0]
    assert Granules.united([one, several]).pages == several.pages
    among = {*_some(draw)}
    for found, order in ((several, touched), (one, touched[:1]), (Granules.united([one, several]), touched)):
        expected = [place for places in order for place in places if place in among]
        if expected:
            assert found.first(_pages(sorted({*expected}))) == expected[0] << shift


@pytest.mark.parametrize("shift", range(5))
def test_granules_that_are_known_are_those_of_the_addresses(shift: int) -> None:
    draw = random.Random(shift)
    for _ in range(20):
        near = tuple(sorted({16 * draw.randrange(300) for _ in range(draw.choice((1, 40)))}))
        by = 16 * draw.randrange(1000)
        known = mask_of([address // 16 for address in near]), by // 16
        assert granules(Moved(near, by), 16, shift, known).pages == granules(Moved(near, by), 16, shift).pages
        assert [*Moved(near, by)] == [address + by for address in near]


def test_bytes_are_granules_of_one() -> None:
    assert [*numbers_of(single_bytes(range(500, 1700)).pages)] == [*range(500, 1700)]
