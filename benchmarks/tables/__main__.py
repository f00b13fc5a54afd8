"""Tables of docs/performance.md, measured in one run and printed as the page has them.

    PYTHONPATH=. python -m benchmarks.tables [--rounds N | --quick] [--only TEXT] [NAME ...]

Each row first compares the results of all sides, and then measures them in turns. They are launched from CUDA graphs,
over so many sets of operands that none stays in L2. Times and rates are medians. The spread is half of the range
between the quartiles, as a part of the median, of the side where it is largest. The first line names the GPU and the
versions, the last ones the clocks while it ran, and how long it all took. A row whose results differ is not printed,
and the exit status is 1. Needs a Hopper GPU and PyTorch.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from benchmarks.arguments import end_without_pytorch
from benchmarks.machine import Clocks, clocks_of, heat, machine
from benchmarks.tables.attention import attention, attention_in_e4m3
from benchmarks.tables.bounds import bounds
from benchmarks.tables.epilogues import epilogues
from benchmarks.tables.gemm import few_rows, layers, orders, shapes, unaligned
from benchmarks.tables.other_types import (
    in_bf16,
    other_weights,
    scaled,
    scaled_few_rows,
    types,
    types_few_rows,
    weights,
)
from benchmarks.tables.table import QUICK, How, Table, compiled, measure, show
from benchmarks.tables.varlen import various_lengths
from samples.problem import positive
from samples.tuning import JOBS

TABLES: dict[str, Callable[[], Table]] = {
    "shapes": shapes,
    "layers": layers,
    "few_rows": few_rows,
    "orders": orders,
    "unaligned": unaligned,
    "epilogues": epilogues,
    "types": types,
    "bf16": in_bf16,
    "bounds": bounds,
    "types_few_rows": types_few_rows,
    "scaled": scaled,
    "scaled_few_rows": scaled_few_rows,
    "weights": weights,
    "other_weights": other_weights,
    "attention": attention,
    "varlen": various_lengths,
    "fp8": attention_in_e4m3,
}


def table_name(word: str) -> str:
    """An argument."""
    if word not in TABLES:
        raise argparse.ArgumentTypeError(f"{word!r} is not a table; there are: {', '.join(TABLES)}")
    return word


def rounds(word: str) -> int:
    """An argument: one round alone has no spread."""
    if positive(word) < 2:
        raise argparse.ArgumentTypeError(f"{word} rounds have no spread: take 2 or more")
    return int(word)


def chosen_tables(names: Sequence[str], only: str | None) -> dict[str, Table]:
    """The tables, with the rows whose first cells have the text."""
    tables = {name: TABLES[name]() for name in names}
    if only is None:
        return tables
    kept = {
        name: replace(table, rows=[row for row in table.rows if only in ", ".join(row.names)])
        for name, table in tables.items()
    }
    return {name: table for name, table in kept.items() if table.rows}


def main() -> int:
    arguments = argparse.ArgumentParser(
        prog="python -m benchmarks.tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_argument(
        "names", nargs="*", type=table_name, metavar="NAME", help=f"{', '.join(TABLES)}; all of them by default"
    )
    length = arguments.add_mutually_exclusive_group()
    length.add_argument("--rounds", type=rounds, default=How().rounds, metavar="N", help="default %(default)s")
    length.add_argument("--quick", action="store_true", help=f"{QUICK.rounds} short rounds")
    arguments.add_argument("--only", metavar="TEXT", help="rows whose first cells have this text, such as bf16")
    arguments.add_argument("--jobs", type=positive, default=JOBS, metavar="N", help="processes that compile")
    chosen = arguments.parse_args()
    tables = chosen_tables(chosen.names or list(TABLES), chosen.only)
    if not tables:
        arguments.error(f"no row of these tables has {chosen.only!r} in its first cells")
    end_without_pytorch()
    return measured(tables, QUICK if chosen.quick else How(chosen.rounds), chosen.jobs)


def measured(tables: dict[str, Table], how: How, jobs: int) -> int:
    """Compile all kernels, and then measure; the exit status."""
    begun = time.perf_counter()
    print(f"{machine()}; {how.rounds} rounds", flush=True)
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as executor:
        kernels = compiled(tables.values(), executor)
    print(f"{len(kernels)} kernels, compiled in {time.perf_counter() - begun:.0f} s\n", flush=True)
    failed = 0
    heat()
    with Clocks() as clocks:
        for name, table in tables.items():
            at = time.perf_counter()
            failed += show(table, partial(measure, kernels=kernels, how=how), partial(print, flush=True))
            print(f"{name}: {len(table.rows)} rows in {time.perf_counter() - at:.0f} s\n", flush=True)
    print(clocks_of(clocks.samples))
    print(f"all in {time.perf_counter() - begun:.0f} s; {failed} rows are not measured")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
