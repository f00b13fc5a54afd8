"""How much constant memory tables may take: one number to all of it, in tables of several widths together."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError, bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import ElementType

ALL_BYTES = 1 << 16
"""CUDA C++ Programming Guide, technical specifications: constant memory of 64 KB."""


def is_refused(*tables: tuple[ElementType, int]) -> bool:
    """Whether the last of these tables is one too many: each is of one number, so many times."""
    k = KernelBuilder("tables", "sm_80", threads=32)
    for number, (element, count) in enumerate(tables, 1):
        try:
            k.constant.array([number] * count, element)
        except DiagnosticError as error:
            return (number, error.diagnostics[0].rule_id) == (len(tables), "constant.size")
    return False


@pytest.mark.parametrize("element", [i8, u8, i16, u16, f16, bf16, i32, u32, f32, i64, u64, f64], ids=str)
def test_one_number_is_a_table_and_none_is_not(element: ElementType) -> None:
    assert not is_refused((element, 1))
    assert is_refused((element, 0))


@pytest.mark.parametrize(
    "tables",
    [
        [(u8, 1), (u8, 7), (f64, 8191)],
        [(u16, 3), (f64, 8191), (u8, 2)],
        [(f64, 8189), (i32, 3), (i16, 5), (i8, 2)],
    ],
)
def test_tables_of_several_widths_share_it(tables: list[tuple[ElementType, int]]) -> None:
    assert sum(count * element.bits // 8 for element, count in tables) == ALL_BYTES
    assert not is_refused(*tables)
    assert not is_refused(*tables[::-1])
    *others, (element, count) = tables
    assert is_refused(*others, (element, count + 1))
    assert is_refused(*tables, (u8, 1))


def test_a_table_that_is_there_already_takes_nothing() -> None:
    k = KernelBuilder("tables", "sm_80", threads=32)
    for _ in range(2):
        k.constant.array([1.0] * (ALL_BYTES // 8), f64)
    with pytest.raises(DiagnosticError, match=r"constant\.size"):
        k.constant.array([2], u8)
