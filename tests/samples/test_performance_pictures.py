"""The pictures of docs/performance.md show what its tables say, and the tables agree with themselves."""

from __future__ import annotations

import re

import pytest

from benchmarks.pictures import CHIP, FOLDER, PAGE, PICTURES, all_bars, tables, written

TEXT = PAGE.read_text(encoding="utf-8")
BARS = all_bars(TEXT)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_every_bar_of_its_table(name: str) -> None:
    """matplotlib writes each bar's number as a text; one that is not there is of a table before this one."""
    picture = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    texts = re.findall(r">([^<>]+)</text>", picture)
    for label in BARS[name].labels:
        assert label in texts
    for value in (value for values in BARS[name].series.values() for value in values):
        texts.remove(written(value))


@pytest.mark.parametrize("name", PICTURES)
def test_the_page_shows_it(name: str) -> None:
    assert f"](pictures/{name}.svg)" in TEXT


def test_rates_are_those_of_the_times_and_ratios() -> None:
    rows = next(rows for heading, rows in tables(TEXT) if heading == "GEMM of any shape")
    ours, theirs = BARS["gemm"].series["nvbackend"], BARS["gemm"].series["cuBLAS"]
    for row, mine, other in zip(rows, ours, theirs, strict=True):
        assert mine / other == pytest.approx(float(row["ratio"]), abs=0.015)
    assert theirs[0] == pytest.approx(2 * 1024**3 / 6.0e-6 / 1e12)


def test_a_number_has_no_exponent() -> None:
    assert [written(value) for value in (4.05, 65.0, 2043.0)] == ["4.05", "65", "2043"]


def test_the_roofline_is_the_memory_where_there_are_few_operations_a_byte() -> None:
    roofs = dict(zip(BARS["gemm"].labels, BARS["gemm"].roofs, strict=True))
    assert roofs["4096 x 4096 x 4096"] == CHIP.rates["tensor f16"]
    few = 2 * 16 * 8192**2 / (2 * (8192**2 + 2 * 16 * 8192))
    assert roofs["16 x 8192 x 8192"] == pytest.approx(few * 4.8)


def test_nothing_is_above_its_roofline() -> None:
    for bars in BARS.values():
        for values in bars.series.values():
            assert all(value <= roof for value, roof in zip(values, bars.roofs, strict=False))


def test_a_table_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyError, match="Attention"):
        all_bars(TEXT.replace("## Attention", "## Something else"))
