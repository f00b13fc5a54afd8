"""A table: what each row measures, and its lines in Markdown."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import nvbackend as nvb
from benchmarks.turns import Took, pass_of, timed, turns_for

__all__ = ["OURS", "Case", "How", "Measured", "Part", "Row", "Table", "compiled", "measure", "show", "turns_for"]

OURS = "nvbackend"
SPREAD = "spread"


@dataclass(frozen=True)
class Case:
    """Ways to compute the same from each of `turns` sets of operands, by the names of who computes.

    `results(turn)` has the tensors that they leave. Each of `limits` is how much one may differ from the one that is
    `right`, as a part of its largest value. Only these and ours must run: others are left out where they cannot.
    """

    turns: int
    ways: Mapping[str, Callable[[int, Any], object]]
    results: Callable[[int], Mapping[str, Any]]
    right: str
    limits: Mapping[str, float]


@dataclass(frozen=True)
class Measured:
    """Microseconds, the largest differences, which ways are not launched from a graph, and why some are left out."""

    took: Mapping[str, Took]
    off: Mapping[str, float] = field(default_factory=dict)
    direct: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    def fastest(self, *names: str) -> str:
        """Of those that were measured."""
        return min((name for name in names if name in self.took), key=self.took.__getitem__)

    def ratio(self, *others: str) -> float:
        """The time of the fastest of the others, divided by ours."""
        return self.took[self.fastest(*others)] / self.took[OURS]


@dataclass(frozen=True)
class Part:
    """A few kernels, and what makes the case of them, once they are loaded."""

    kernels: Sequence[nvb.KernelDefinition]
    make: Callable[..., Case]


@dataclass(frozen=True)
class Row:
    """The first cells, which say what is measured, and a part, or several."""

    names: tuple[str, ...]
    parts: Sequence[Part]


@dataclass(frozen=True)
class Table:
    """Its heading in docs/performance.md, its columns, its rows, and the cells after the names of a row.

    `cells` are of what was measured for each part. They leave out the spread, which the table adds.
    """

    heading: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    cells: Callable[[Row, Sequence[Measured]], Sequence[str]]

    def __post_init__(self) -> None:
        assert SPREAD in self.columns


class How(NamedTuple):
    """Rounds that count, passes through all sets in each, and the rounds before them, until the clock has fallen."""

    rounds: int = 14
    repeats: int = 2
    warmup: int = 8


QUICK = How(5, 1, 3)

Kernels = Mapping[int, nvb.CompiledKernel | str]
"""By the number that `id` gives their definitions; of one that was not compiled the reason."""


def compiled(tables: Iterable[Table], executor: Executor) -> Kernels:
    """All kernels of the tables."""
    every = [kernel for table in tables for row in table.rows for part in row.parts for kernel in part.kernels]
    return {id(kernel): result for kernel, result in zip(every, executor.map(_compile, every), strict=True)}


def _compile(kernel: nvb.KernelDefinition) -> nvb.CompiledKernel | str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nvb.DiagnosticWarning)
        try:
            return kernel.compile()
        except nvb.DiagnosticError as error:
            return f"{kernel}: {error}"


def measure(part: Part, kernels: Kernels, how: How) -> Measured:
    """Compare the results, and then measure. Raises RuntimeError where they differ, or something does not run."""
    import torch

    torch.cuda.empty_cache()
    loaded = []
    for kernel in part.kernels:
        result = kernels[id(kernel)]
        if isinstance(result, str):
            raise RuntimeError(result)
        loaded.append(nvb.runtime.load(result))
    case = part.make(*loaded)
    passes, direct, left_out = _passes(case)
    for run in passes.values():
        run()
    torch.cuda.synchronize()
    off = differences(case)
    return Measured(timed(passes, case.turns, **how._asdict()), off, direct, left_out)


def _passes(case: Case) -> tuple[dict[str, Callable[[], object]], list[str], dict[str, str]]:
    """What goes through all sets in each way, the ways without a graph, and why others are left out."""
    passes: dict[str, Callable[[], object]] = {}
    direct, left_out = [], {}
    for name, launch in case.ways.items():
        try:
            passes[name], is_graph = pass_of(case.turns, launch)
        except (RuntimeError, TypeError, ImportError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
            if name in {OURS, case.right}:
                raise RuntimeError(f"{name} does not run: {reason}") from error
            left_out[name] = reason
            continue
        if not is_graph:
            direct.append(name)
    return passes, direct, left_out


def differences(case: Case) -> dict[str, float]:
    """The largest ones of all sets, as parts of the largest value. Raises RuntimeError where one is too large."""
    off: dict[str, float] = {}
    for turn in range(case.turns):
        results = {name: result.float() for name, result in case.results(turn).items()}
        right = results[case.right]
        for name, limit in case.limits.items():
            if name not in results:
                continue
            differs = float((results[name] - right).abs().max() / right.abs().max())
            if not differs <= limit:  # not a number is wrong, too
                raise RuntimeError(f"DIFFERENT RESULTS: {name} is off by {differs:.1e} of the largest value")
            off[name] = max(differs, off.get(name, 0.0))
    return off


def line(cells: Iterable[str]) -> str:
    """A line of a table in Markdown."""
    return "|".join(("", *(f" {cell} " if cell else " " for cell in cells), ""))


def lines_of(table: Table, row: Row, every: Sequence[Measured]) -> str:
    """The row in Markdown, with the greatest spread of all that was measured for it."""
    spread = max(took.spread for measured in every for took in measured.took.values())
    cells = [*row.names, *table.cells(row, every)]
    cells.insert(table.columns.index(SPREAD), f"{100 * spread:.1f} %")
    return line(cells)


def show(table: Table, measured: Callable[[Part], Measured], show_line: Callable[[str], None]) -> int:
    """Show the table as it is measured, and after it what is to say of it; how many rows were not measured."""
    show_line(f"### {table.heading}\n\n{line(table.columns)}\n{line(['---'] * len(table.columns))}")
    notes, off, failed = list[str](), dict[str, float](), 0
    for row in table.rows:
        name = ", ".join(row.names)
        try:
            every = [measured(part) for part in row.parts]
        except RuntimeError as error:
            notes.append(f"{name} is NOT MEASURED: {error}")
            failed += 1
            continue
        show_line(lines_of(table, row, every))
        for each in every:
            notes += [f"{name}: {way} is not launched from a graph" for way in each.direct]
            notes += [f"{name}: {way} is left out: {reason}" for way, reason in each.left_out.items()]
            off = {way: max(part, off.get(way, 0.0)) for way, part in {**off, **each.off}.items()}
    show_line("\n" + "\n".join([*notes, *(f"{way} differs by {part:.1e} at most" for way, part in off.items())]))
    return failed


def us(microseconds: float) -> str:
    """A time in a cell."""
    return f"{microseconds:.1f}" if microseconds < 1000 else f"{microseconds:.0f}"


def ratio(value: float) -> str:
    """A ratio in a cell, of which no rounding makes the other side the slower one."""
    return f"{value:.3f}" if 0.995 <= value < 0.9995 else f"{value:.2f}"


def rate(operations: float, microseconds: float) -> str:
    """TFLOP/s in a cell."""
    return f"{operations / microseconds / 1e6:.0f}"


def size(*extents: int) -> str:
    """A shape in a cell."""
    return " x ".join(map(str, extents))
