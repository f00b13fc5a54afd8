"""How much shared memory a CTA can have. The numbers are written down a second time here."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend.isel.target.shared_memory import SHARED_LIMIT, static_limit

KILOBYTES = {
    "sm_70": 96,
    "sm_72": 96,
    "sm_75": 64,
    "sm_80": 163,
    "sm_86": 99,
    "sm_87": 163,
    "sm_88": 99,
    "sm_89": 99,
    "sm_90": 227,
    "sm_100": 227,
    "sm_101": 227,
    "sm_103": 227,
    "sm_110": 227,
    "sm_120": 99,
    "sm_121": 99,
}
"""CUDA C++ Programming Guide, compute capabilities: the maximum of a thread block."""


@pytest.mark.parametrize("chip", KILOBYTES)
def test_the_limit_of_a_chip(chip: str) -> None:
    assert SHARED_LIMIT[int(chip.removeprefix("sm_"))] == 1024 * KILOBYTES[chip]


def test_every_chip_has_one() -> None:
    assert {f"sm_{number}" for number in SHARED_LIMIT} == set(KILOBYTES)


@pytest.mark.parametrize(("target", "kilobytes"), [("sm_70", 48), ("sm_90", 48), ("sm_90a", 227), ("sm_120a", 99)])
def test_static_arrays_have_all_of_it_with_the_suffix_a(target: str, kilobytes: int) -> None:
    assert static_limit(nvb.Target.parse(target)) == 1024 * kilobytes
