"""What is advised for types of A, B and D that no wgmma multiplies: those that go with A, and those that go with B."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.intrinsics.row.types import BY_NAME, ElementType
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.isel.select.wgmma.select import GATES
from nvbackend.isel.target.target import Target, why_not

HOPPER = Target.parse("sm_90a")
FAMILIES: list[tuple[set[str], set[str]]] = [
    ({"f16"}, {"f16", "f32"}),
    ({"bf16"}, {"f32"}),
    ({"tf32"}, {"f32"}),
    ({"e4m3", "e5m2"}, {"f16", "f32"}),
    ({"s8", "u8"}, {"s32"}),
    ({"b1"}, {"s32"}),
]
"""The types of A and B that go together, and those of D with them: PTX ISA 9.7.15.2 (wgmma, matrix fragments)."""
FOUR_BITS = {"s4", "u4"}


def types_of(*names: str) -> tuple[set[str], set[str]] | None:
    return next((family for family in FAMILIES if {*names} <= family[0]), None)


@pytest.mark.parametrize("d", ["f16", "f32", "s32", "bf16"])
def test_the_types_that_are_advised(d: str) -> None:
    a: ElementType
    b: ElementType
    for a, b in itertools.product(BY_NAME.values(), BY_NAME.values()):
        together = types_of(a.name, b.name)
        why = why_not(GATES, WgmmaRequest(64, 16, BY_NAME[d], a, b), HOPPER)
        said = [each for each in why if each.rule_id == "wgmma.types"]
        is_right = together is not None and d in together[1]
        assert bool(said) is not (is_right or bool(FOUR_BITS & {a.name, b.name})), (a, b)
        for each in said:
            assert f"{a} x {b} -> {d}" in each.message
            advised = [family for family in FAMILIES if {a.name, b.name} & family[0]]
            if not advised:
                listed = {name for types, _ in FAMILIES for name in types}
                assert listed <= {*each.message.replace(",", " ").split()}, (a, b)
            else:
                ways = each.fix.removeprefix("use A/B of type ").split(", or A/B of type ")
                spelled = [tuple({*part.split("/")} for part in way.split(" and D of type ")) for way in ways]
                assert sorted(spelled, key=FAMILIES.index) == advised, (a, b, each.fix)
