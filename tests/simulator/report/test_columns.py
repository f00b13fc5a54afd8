"""Tables of text: how wide columns are, which side texts begin at, and how numbers are written."""

from __future__ import annotations

import pytest

from nvbackend.simulator.report.columns import Column, amount, number, table


def test_columns_are_as_wide_as_their_longest_text() -> None:
    shown = table(
        [Column("left", "<"), Column("r", ">"), Column("last", "<")], [("a", "12,345", ""), ("longer", "6", "x")]
    )
    assert shown.splitlines() == ["  left         r  last", "  a       12,345", "  longer       6  x"]
    assert table([Column("one", "<")], [], indent="") == "one"


@pytest.mark.parametrize(("value", "shown"), [(0, ""), (1, "1"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")])
def test_a_number(value: int, shown: str) -> None:
    assert number(value) == shown


KIB, GIB = 1 << 10, 1 << 30


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, ""),
        (1, "1 B"),
        (10239, "10,239 B"),
        (10240, "10 KiB"),
        (10240 * KIB - 1, "10,240 KiB"),
        (10240 * KIB, "10 MiB"),
        (12 * GIB, "12 GiB"),
        (20000 * GIB, "20 TiB"),
        (20000 * GIB * KIB, "20,000 TiB"),
    ],
)
def test_an_amount_of_bytes(count: int, shown: str) -> None:
    assert amount(count) == shown
