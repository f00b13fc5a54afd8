"""Pictures of the figures in docs/performance.md, beside what the chip can do: one for each of its main tables.

    PYTHONPATH=. python -m benchmarks.pictures [FOLDER]

The tables are read from the page, which alone has the figures. Needs matplotlib (the extra `plots`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from nvbackend.codegen.looking.roofline import CHIPS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
FOLDER = PAGE.parent / "pictures"
CHIP = next(chip for chip in CHIPS[90] if "H200" in chip.name)
PEAK = CHIP.rates["tensor f16"]
"""The data sheet's rates: at the boost's clock, which the power cap does not leave to large products."""
OURS, THEIRS, COPY, ROOF = "#5a9e16", "#9aa0a6", "#5f6368", "#c5221f"
OTHERS = "Triton", "ptxas alone"
"""What rows of others name, where a picture has one bar a row."""

Row = dict[str, str]


@dataclass(frozen=True)
class Bars:
    """A picture: a bar for each series of each row, and where the roofline of a row is, if it has one."""

    title: str
    unit: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float]]
    roofs: Sequence[float] = ()


def tables(page: str) -> Iterator[tuple[str, list[Row]]]:
    """Every table of the page with the heading above it, as rows by the names of their columns."""
    heading, found = "", re.finditer(r"^#+ (.+)$|^(\|.+\|)\n\|[ -|]+\|\n((?:\|.+\|\n)+)", page, re.MULTILINE)
    for match in found:
        if match[1]:
            heading = match[1]
            continue
        names = _cells(match[2])
        yield heading, [dict(zip(names, _cells(line), strict=True)) for line in match[3].splitlines()]


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]


def _numbers(cell: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", cell)]


def gemm(rows: list[Row]) -> Bars:
    """TFLOP/s over the shapes. The memory reads A and B and writes C once."""
    sizes = [_numbers(row["M x N x K"]) for row in rows]
    work = [2 * prod(size) for size in sizes]
    moved = [2 * (m * k + n * k + m * n) for m, n, k in sizes]
    series = {
        name: [flops / _numbers(row[f"{name}, us"])[0] / 1e6 for flops, row in zip(work, rows, strict=True)]
        for name in ("cuBLAS", "nvbackend")
    }
    roofs = [_roof(*pair) for pair in zip(work, moved, strict=True)]
    return Bars("GEMM in f16", "TFLOP/s", [row["M x N x K"] for row in rows], series, roofs)


def attention(rows: list[Row]) -> Bars:
    """TFLOP/s; the memory reads Q, K and V and writes O once, which never is the roof here."""
    theirs = [_numbers(row["cuDNN, TFLOP/s"])[0] for row in rows]
    ours = [rate * _numbers(row["ratio"])[0] for rate, row in zip(theirs, rows, strict=True)]
    labels = [f"{row['heads x rows']}, heads of {row['dimension of a head']}" for row in rows]
    return Bars("Attention forward", "TFLOP/s", labels, {"cuDNN": theirs, "nvbackend": ours}, [PEAK] * len(rows))


def kernels_of_rows(rows: list[Row]) -> Bars:
    """TB/s of softmax and norms. The roof is the memory's rate."""
    labels = [f"{row['kernel']}, {row['type']}, {row['rows x columns']}" for row in rows]
    names = ("PyTorch", "copy", "nvbackend")
    series = {name: [_numbers(row[name])[0] for row in rows] for name in names}
    return Bars("Softmax and norms", "TB/s", labels, series, [CHIP.bandwidth] * len(rows))


def launches(rows: list[Row]) -> Bars:
    """Microseconds of host time, medians of the first machine."""
    medians = [_numbers(row["one machine"])[-1] for row in rows]
    return Bars("Host time of a launch, medians", "us", [row["launch"] for row in rows], {"": medians})


def compiles(rows: list[Row]) -> Bars:
    """Milliseconds of a compile without a cache, medians."""
    medians = [_numbers(row["least, median"])[-1] for row in rows]
    return Bars("From Python to a cubin, medians", "ms", [row["what"] for row in rows], {"": medians})


PICTURES: dict[str, tuple[str, Callable[[list[Row]], Bars]]] = {
    "gemm": ("GEMM of any shape", gemm),
    "attention": ("Attention", attention),
    "rows": ("Softmax and norms", kernels_of_rows),
    "launch": ("Host time", launches),
    "compile": ("Without a cache", compiles),
}
"""Each picture's heading, below which its table is the first one, and what makes bars of it."""


def all_bars(page: str) -> dict[str, Bars]:
    """The pictures by the names of their files. Raises KeyError for a table that is not there any more."""
    first: dict[str, list[Row]] = {}
    for heading, rows in tables(page):
        first.setdefault(heading, rows)
    return {name: make(first[heading]) for name, (heading, make) in PICTURES.items()}


def _roof(flops: float, moved: float) -> float:
    """TFLOP/s that the chip can reach for so many operations and bytes."""
    return min(PEAK, flops / moved * CHIP.bandwidth)


def written(value: float) -> str:
    """The number beside a bar: three digits."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _colours(bars: Bars, series: str) -> list[str]:
    if series:
        return [{"nvbackend": OURS, "copy": COPY}.get(series, THEIRS)] * len(bars.labels)
    return [THEIRS if any(other in label for other in OTHERS) else OURS for label in bars.labels]


def draw(bars: Bars, path: Path) -> None:
    """Write the picture as SVG: the same bytes for the same bars and the same matplotlib."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    style: Any = {"svg.hashsalt": path.name, "svg.fonttype": "none", "font.size": 9}
    count, width = len(bars.series), 0.8 / len(bars.series)
    with mpl.rc_context(style):
        figure, axes = plt.subplots(figsize=(8, 0.9 + len(bars.labels) * (0.12 + 0.14 * count)), layout="constrained")
        places = range(len(bars.labels))
        for number, (name, values) in enumerate(bars.series.items()):
            at = [place + (number - (count - 1) / 2) * width for place in places]
            drawn = axes.barh(at, values, width * 0.92, label=name, color=_colours(bars, name))
            axes.bar_label(drawn, [written(value) for value in values], padding=2, fontsize=7)
        for place, roof in zip(places, bars.roofs, strict=False):
            label = "roofline" if place == 0 else None
            axes.plot([roof, roof], [place - 0.45, place + 0.45], color=ROOF, linewidth=1.4, label=label)
        axes.set_yticks([*places], bars.labels)
        axes.invert_yaxis()
        axes.set_xlabel(bars.unit)
        axes.set_title(bars.title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(y=0.01)
        if count > 1:
            figure.legend(loc="outside lower right", ncols=4, frameon=False)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, bars in all_bars(PAGE.read_text(encoding="utf-8")).items():
        draw(bars, folder / f"{name}.svg")
        print(folder / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
