"""`nvbackend explain` of an opcode: what its axes can be, for rows of every kind of value."""

from __future__ import annotations

import re

import pytest

from nvbackend.cli.explaining.opcode import explained_opcode
from nvbackend.rows import Asm, Row

SHAPE = {"m": "16", "n": "8", "k": "4, 8"}


def made(number: int, *, family: str = "mine", section: str = "", **axes: object) -> Row:
    ptx = f"mine.v{number}"
    return Row(family, "mine", ptx, (), Asm(f"{ptx};"), summary=f"Sum {number}.", section=section, axes=axes)


def axes_of(values: list[object]) -> dict[str, str]:
    """The axes on the page of rows with these values of one."""
    page = "".join(explained_opcode([made(number, one=value) for number, value in enumerate(values)], None))
    table = re.search(r"^  axis +values\n((?:  .+\n)+)", page, re.MULTILINE)
    assert table is not None
    return dict(re.findall(r"^  (\S+) +(.+)$", table[1], re.MULTILINE))


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([(16, 8, 8), (16, 8, 4)], SHAPE),
        ([(16, 8, 4), None, (16, 8, 8)], {"one": "16, 8, 4, none, 16, 8, 8"}),
        ([(16, 8, 4), (16, 8)], {"one": "16, 8, 4, 16, 8"}),
        ([(16, 8), (16, 4)], {"one": "16, 8, 16, 4"}),
        ([(1, 2, 3, 4)], {"one": "1, 2, 3, 4"}),
        ([1, 2, 3, 4], {"one": "1 to 4"}),
        ([11, 5, 7, 9], {"one": "5 to 11 by 2"}),
        ([5, 7, 9], {"one": "5, 7, 9"}),
        ([1, 2, 4, 8], {"one": "1, 2, 4, 8"}),
        ([None, 5, 7, 9, 11], {"one": "none, 5, 7, 9, 11"}),
        ([5, 7, 9, 11, "all"], {"one": "5, 7, 9, 11, all"}),
        ([5, 7, 9, 11, True, False], {"one": "5, 7, 9, 11, yes, no"}),
        ([2, 3, 4, True], {"one": "2, 3, 4, yes"}),
        (["f16", "f32", "f16"], {"one": "f16, f32"}),
    ],
)
def test_no_value_of_an_axis_is_left_out_or_added(values: list[object], shown: dict[str, str]) -> None:
    assert axes_of(values) == shown


def test_each_family_and_section_is_a_part_of_its_own() -> None:
    rows = [made(1, section="9.7 (mine)"), made(2), made(3, family="other"), made(4, section="9.7 (mine)")]
    page = "".join(explained_opcode(rows, None))
    assert page.startswith("mine\n"), "no empty line before the first"
    parts = re.findall(r"^(mine\S*)\n  (.+)\n\n(.+)\n\n(.+)$", page, re.MULTILINE)
    assert parts == [
        ("mine", "mine; PTX ISA 9.7 (mine)", "Sum 1. Sum 4.", "2 variants, 2 spellings"),
        ("mine.v2", "mine", "Sum 2.", "1 variant, 1 spelling"),
        ("mine.v3", "other", "Sum 3.", "1 variant, 1 spelling"),
    ]
    assert re.findall(r'nvbackend explain "(.+)"', page) == ["mine.v1", "mine.v2", "mine.v3"]
