"""The tables that the benchmarks print are those of docs/performance.md, and say what was measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import pictures
from benchmarks.machine import Clocks, Sample, asked, clocks_of, machine, sample_of
from benchmarks.pictures import PAGE, tables
from benchmarks.tables import __main__ as program
from benchmarks.tables.__main__ import TABLES
from benchmarks.tables.table import (
    OURS,
    Case,
    How,
    Measured,
    Part,
    Row,
    Table,
    compiled,
    differences,
    measure,
    ratio,
    show,
)
from benchmarks.turns import Took

TEXT = PAGE.read_text(encoding="utf-8")
WAYS = (
    "cuBLAS",
    "PyTorch",
    "f16 of PyTorch",
    "before",
    "bare",
    "cuDNN",
    "FlashAttention",
    "nested",
    "varlen_attn",
    "even",
    "nvbackend, f16",
    "products alone",
)
TIMES = {OURS: Took.of([100.0, 100.0, 104.0]), **{way: Took.of([150.0, 150.0, 162.0]) for way in WAYS}}
"""Spreads of 1 and of 2 per cent."""
MADE = {name: make() for name, make in TABLES.items()}
NEW = {"spread", "varlen_attn", "ratio"}
"""Columns that the page has only once its tables were measured by this program."""


def printed(table: Table, measured: Any = lambda part: Measured(TIMES)) -> tuple[str, int]:
    lines: list[str] = []
    failed = show(table, measured, lines.append)
    return "\n".join(lines) + "\n", failed


@pytest.mark.parametrize("name", TABLES)
def test_a_table_in_markdown_has_a_line_for_each_row(name: str) -> None:
    text, failed = printed(MADE[name])
    ((heading, rows),) = tables(text)
    assert not failed
    assert heading == MADE[name].heading
    names = MADE[name].columns[: len(MADE[name].rows[0].names)]
    assert [tuple(row[column] for column in names) for row in rows] == [row.names for row in MADE[name].rows]
    assert {row["spread"] for row in rows} == {"2.0 %"}
    assert all(row["ratio"] == "1.50" for row in rows if "ratio" in row)
    assert len({row.names for row in MADE[name].rows}) == len(rows)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_its_columns_and_rows(name: str) -> None:
    table = MADE[name]
    count = len(table.rows[0].names)
    rows = next(
        rows for heading, rows in tables(TEXT) if heading == table.heading and tuple(rows[0])[:2] == table.columns[:2]
    )
    columns = [column.replace("`", "") for column in table.columns]
    assert [column for column in columns if column in rows[0] or column not in NEW] == list(rows[0])
    known = {row.names for row in table.rows}
    assert {tuple(list(row.values())[:count]) for row in rows} <= known


@pytest.mark.parametrize(("name", "make"), [("shapes", pictures.gemm), ("attention", pictures.attention)])
def test_pictures_are_drawn_of_a_table_with_a_spread(name: str, make: Any) -> None:
    ((_, rows),) = tables(printed(MADE[name])[0])
    bars = make(rows)
    ratios = [
        mine / other for mine, other in zip(bars.series["nvbackend"], next(iter(bars.series.values())), strict=True)
    ]
    assert ratios == pytest.approx([1.5] * len(rows))
    without = [{column: cell for column, cell in row.items() if column != "spread"} for row in rows]
    assert make(without) == bars


def test_what_was_computed_is_what_a_cell_says() -> None:
    cells = {name: next(tables(printed(MADE[name])[0]))[1][0] for name in ("layers", "attention", "fp8", "epilogues")}
    assert cells["layers"]["4096 x 4096"] == "100.0, 1.50"
    assert cells["attention"]["cuDNN, TFLOP/s"] == f"{4 * 256 * 1024**2 * 128 / 150e-6 / 1e12:.0f}"
    assert cells["fp8"]["nvbackend, e4m3"] == f"{4 * 64 * 4096**2 * 64 / 100e-6 / 1e12:.0f}"
    ((_, rows),) = tables(printed(MADE["attention"])[0])
    causal = next(row for row in rows if row["dimension of a head"] == "64, causal")
    assert causal["cuDNN, TFLOP/s"] == f"{2 * 256 * 1024**2 * 64 / 150e-6 / 1e12:.0f}"
    various = next(tables(printed(MADE["varlen"])[0]))[1][1]
    assert various["nested"] == f"{4 * 16 * 64 * 1024**2 * 128 / 150e-6 / 1e12:.0f}"
    assert [cells["epilogues"][way] for way in ("bare", "PyTorch", "nvbackend")] == ["150.0", "150.0", "100.0"]


def test_the_faster_library_is_named_where_it_is_another_one() -> None:
    fast = {**TIMES, "FlashAttention": Took.of([50.0, 50.0, 50.0])}
    ((_, rows),) = tables(printed(MADE["attention"], lambda part: Measured(fast))[0])
    assert rows[0]["ratio"] == "0.50 (FlashAttention)"
    assert pictures.attention(rows).series["nvbackend"]


def test_a_way_that_does_not_run_is_left_out_with_its_reason() -> None:
    fewer = {way: TIMES[way] for way in (OURS, "nested", "even")}
    measured = Measured(fewer, {OURS: 0.001}, ["nested"], {"varlen_attn": "there is no such call"})
    text, failed = printed(MADE["varlen"], lambda part: measured)
    assert not failed
    assert "16 of 4,096 rows: nested is not launched from a graph" in text
    assert "16 of 4,096 rows: varlen_attn is left out: there is no such call" in text
    assert "nvbackend differs by 1.0e-03 at most" in text
    ((_, rows),) = tables(text)
    assert rows[0]["varlen_attn"] == ""


def test_a_row_that_cannot_be_measured_is_not_printed() -> None:
    table = MADE["orders"]

    def measured(part: Part) -> Measured:
        if part is table.rows[1].parts[2]:
            raise RuntimeError("DIFFERENT RESULTS: nvbackend is off by 2.0e-01 of the largest value")
        return Measured(TIMES)

    text, failed = printed(table, measured)
    ((_, rows),) = tables(text)
    assert failed == 1
    assert len(rows) == len(table.rows) - 1
    assert f"{table.rows[1].names[0]} is NOT MEASURED: DIFFERENT RESULTS: nvbackend is off by 2.0e-01" in text


class Numbers(np.ndarray[Any, Any]):
    """An array with the calls of PyTorch's."""

    def float(self) -> Numbers:
        return self.astype(np.float32)

    def abs(self) -> Numbers:
        return np.abs(self)


def numbers(*values: float) -> Numbers:
    return np.array(values).view(Numbers)


@pytest.mark.parametrize("wrong", [2.5, float("nan")])
def test_results_of_every_set_are_compared(wrong: float) -> None:
    right = [{"cuBLAS": numbers(1, -2), OURS: numbers(1, -1.998), "other": numbers(0, 0)} for _ in range(3)]
    case = Case(3, {}, right.__getitem__, "cuBLAS", {OURS: 2**-9, "not there": 0})
    assert differences(case) == {OURS: pytest.approx(0.001, rel=1e-3)}
    right[2][OURS] = numbers(wrong, -2)
    with pytest.raises(RuntimeError, match=r"DIFFERENT RESULTS: nvbackend is off by (nan|7\.5e-01) of the largest"):
        differences(case)


class Inline:
    """An executor without processes."""

    map = staticmethod(map)


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("name", TABLES)
def test_a_row_of_a_table_is_measured(name: str) -> None:
    pytest.importorskip("torch")
    table = replace(MADE[name], rows=MADE[name].rows[:1])
    kernels = compiled([table], Inline())  # type: ignore[arg-type]
    text, failed = printed(table, partial(measure, kernels=kernels, how=How(2, 1, 0)))
    assert not failed, text


def test_a_kernel_that_does_not_compile_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torch:
        class cuda:
            empty_cache = staticmethod(lambda: None)

    part = replace(
        MADE["orders"].rows[0].parts[0], kernels=(MADE["orders"].rows[0].parts[0].kernels[0].with_(stages=99),)
    )
    table = replace(MADE["orders"], rows=[Row(("one",), [part])])
    kernels = compiled([table], Inline())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch", Torch)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="shared"):
        measure(part, kernels, How())


@pytest.mark.parametrize(("value", "cell"), [(0.996, "0.996"), (0.9996, "1.00"), (0.994, "0.99"), (1.004, "1.00")])
def test_a_ratio_below_1_is_not_rounded_to_it(value: float, cell: str) -> None:
    assert ratio(value) == cell


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("order", "'order' is not a table; there are: shapes, "),
        ("--rounds 1", "1 rounds have no spread"),
        ("--rounds 0", "'0' is not a positive number"),
        ("--rounds 3 --quick", "not allowed with argument"),
        ("orders --only bf16", "no row of these tables has 'bf16' in its first cells"),
    ],
)
def test_an_argument_is_wrong(words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(sys, "argv", ["tables", *words.split()])
    with pytest.raises(SystemExit):
        program.main()
    assert said in capsys.readouterr().err


def test_rows_can_be_chosen_by_a_text() -> None:
    chosen = program.chosen_tables(["attention", "orders"], "bf16")
    assert list(chosen) == ["attention"]
    assert {row.names[0] for row in chosen["attention"].rows} == {"128, bf16"}
    assert len(program.chosen_tables(["orders"], None)["orders"].rows) == len(MADE["orders"].rows)


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("GPU-aa-1, 580.1, 1980\n", ["580.1", "1980"]),
        ("GPU-cc-3, 580.1, 1200\nGPU-bb-2, 580.1, 1980\n", ["580.1", "1980"]),
        ("GPU-cc-3, 580.1, 1200\nGPU-dd-4, 580.1, 1980\n", None),
        ("", None),
    ],
)
def test_nvidia_smi_says_something_of_the_gpu_in_use(
    said: str, fields: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=said))
    assert asked(SimpleNamespace(uuid="bb-2"), "driver_version,clocks.sm") == fields


def test_nvidia_smi_may_not_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(subprocess, "run", run)
    assert asked(SimpleNamespace(uuid="bb-2"), "driver_version") is None


def test_the_machine_is_named_where_there_is_no_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(name="NVIDIA H200", uuid="bb-2")
    cuda = SimpleNamespace(get_device_properties=lambda _: properties, current_device=lambda: 0)
    backends, version = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91002)), SimpleNamespace(cuda="13.0")
    torch = SimpleNamespace(cuda=cuda, backends=backends, version=version, __version__="2.11.0")
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    monkeypatch.setattr("benchmarks.machine.asked", lambda *_: None)
    assert machine().startswith("NVIDIA H200, driver unknown, PyTorch 2.11.0 for CUDA 13.0, cuDNN 91002, nvbackend ")
    with Clocks() as clocks:
        pass
    assert clocks.samples == []


def samples(*fields: Sequence[str] | None) -> list[Sample | None]:
    return list(map(sample_of, fields))


def test_clocks_are_those_of_a_busy_gpu() -> None:
    assert samples(None, ["1980", "[N/A]", "40", "0"], ["1980"]) == [None, None, None]
    taken = [Sample(1980, 120, 40, 0), Sample(1400, 690, 60, 100), Sample(1300, 700, 62, 95), Sample(1500, 650, 64, 90)]
    assert clocks_of(taken) == (
        "clocks while busy: 1400 (1300 to 1500) MHz, 690 (650 to 700) W, 62 (60 to 64) degrees; medians of 3 samples"
    )
    assert clocks_of(taken[:1]) == "clocks: unknown, as none of 1 samples is of a busy GPU"
