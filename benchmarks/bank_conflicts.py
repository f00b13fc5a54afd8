"""Wavefronts of shared-memory loads: those computed from layouts against those that the hardware counts.

    PYTHONPATH=. python -m benchmarks.bank_conflicts                       # what is expected
    PYTHONPATH=. ncu --csv --metrics METRICS python -m benchmarks.bank_conflicts --run > counted.csv
    PYTHONPATH=. python -m benchmarks.bank_conflicts --compare counted.csv

where METRICS is what `--metrics` prints. Each pattern is a kernel of one warp with one load from shared memory, whose
addresses it reads from global memory. `--compare` ends with status 1 if a count differs. Patterns in which pairs of
threads read the same word are shown but not judged, because chips may serve two of their phases at once.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nvbackend as nvb
from nvbackend import Major, Parameter, Pointer, SwizzleMode, f16, u32
from nvbackend.layout import BankAccess, Layout, bank_conflicts, gmma_atom, ldmatrix_conflicts, tile_to_shape

WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
SHARED_BYTES = 16 * 1024
WORD_BYTES = 4
PREFIX = "bank_"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A load: its kernel's name, the access, and whether it is ldmatrix or judged at all."""

    name: str
    access: BankAccess
    matrix: bool = False
    judged: bool = True


def patterns() -> Iterator[Pattern]:
    """Strides of words and vectors, columns of swizzled and plain tiles, rows of ldmatrix."""
    for stride in (0, 1, 2, 3, 4, 8, 16, 32, 33):
        yield Pattern(f"words_{stride}", bank_conflicts(Layout(32, stride), 32, 4))
    for size, strides in ((8, (2, 4, 6, 8, 16, 34)), (16, (4, 8, 12, 16, 32, 36))):
        for stride in strides:
            yield Pattern(f"bytes{size}_{stride}", bank_conflicts(Layout(32, stride), 32, size))
    for mode in (SwizzleMode.B32, SwizzleMode.B64, SwizzleMode.B128):
        tile = tile_to_shape(gmma_atom(Major.K, mode, f16), (32, mode.bytes // 2))
        swizzled, plain = ([2 * layout(row, 0) for row in range(32)] for layout in (tile, tile.layout_b))
        for name, rows in (("swizzled", swizzled), ("plain", plain)):
            yield Pattern(f"column_{name}_{mode.bytes}", bank_conflicts(rows))
            yield Pattern(f"vectors_{name}_{mode.bytes}", bank_conflicts(rows, access_bytes=16))
            yield Pattern(f"ldmatrix_{name}_{mode.bytes}", ldmatrix_conflicts(rows), matrix=True)
    yield Pattern("ldmatrix_padded", ldmatrix_conflicts(Layout(32, 72), 16), matrix=True)
    for bit in (1, 2):
        for size in (8, 16):
            shared = [(thread & ~bit) * size for thread in range(32)]
            yield Pattern(f"pairs{bit}_bytes{size}", bank_conflicts(shared, access_bytes=size), judged=False)


def build(pattern: Pattern) -> nvb.FinishedKernel:
    """The kernel of one load; lane L reads at byte `addresses[L]` of shared memory."""
    parameters = [Parameter("addresses", Pointer(u32)), Parameter("out", Pointer(u32))]
    k = nvb.KernelBuilder(PREFIX + pattern.name, "sm_90a", threads=32, parameters=parameters)
    addresses, out = k.arguments
    assert isinstance(addresses, nvb.Address) and isinstance(out, nvb.Address)
    lane = k.thread_id()
    shared = k.shared(u32, SHARED_BYTES // WORD_BYTES, align=128)
    place = shared.byte_offset(addresses[lane], align=pattern.access.bytes)
    words = pattern.access.bytes // WORD_BYTES
    loaded = k.mma.ldmatrix(place, words) if pattern.matrix else place.load(words)
    for index, value in enumerate(loaded):
        out[lane * words + index] = value
    return k.finish()


def run(every: list[Pattern]) -> None:
    """Launch each kernel once."""
    import numpy as np
    from numba import cuda

    from nvbackend import runtime

    for pattern in every:
        kernel = runtime.load(build(pattern).compile())
        addresses = cuda.to_device(np.array(pattern.access.addresses, np.uint32))
        out = cuda.to_device(np.zeros(32 * pattern.access.bytes // WORD_BYTES, np.uint32))
        kernel.launch(1, addresses, out)
        kernel.synchronize()


def counted(text: str) -> dict[str, dict[str, int]]:
    """The metrics of each kernel in what `ncu --csv` prints, by the pattern's name."""
    lines = text.splitlines()
    start = next((place for place, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(lines[start:]):
        kernel = (row.get("Kernel Name") or "").partition("(")[0]
        if kernel.startswith(PREFIX):
            value = round(float(row["Metric Value"].replace(",", "")))
            found.setdefault(kernel.removeprefix(PREFIX), {})[row["Metric Name"]] = value
    return found


def compare(every: list[Pattern], found: dict[str, dict[str, int]]) -> bool:
    """Print expected and counted numbers; whether every judged pattern was counted and agrees."""
    print(f"{'pattern':<24}{'wavefronts':>12}{'counted':>9}{'conflicts':>11}{'counted':>9}")
    wrong = []
    for pattern in every:
        metrics = found.get(pattern.name, {})
        wavefronts, conflicts = metrics.get(WAVEFRONTS), metrics.get(CONFLICTS)
        agrees = wavefronts == pattern.access.wavefronts
        if pattern.judged and not agrees:
            wrong.append(pattern.name)
        verdict = "" if agrees else "  differs" if pattern.judged else "  (not judged)"
        expected = f"{pattern.name:<24}{pattern.access.wavefronts:>12}{wavefronts!s:>9}"
        print(f"{expected}{pattern.access.conflicts:>11}{conflicts!s:>9}{verdict}")
    judged = sum(pattern.judged for pattern in every)
    print(f"{judged - len(wrong)} of {judged} patterns agree in their wavefronts")
    return not wrong


def main() -> int:
    """Print what is expected, run the kernels, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--metrics", action="store_true", help="print the metrics for ncu")
    choice.add_argument("--run", action="store_true", help="launch the kernels, on a GPU, under ncu")
    choice.add_argument("--compare", type=Path, metavar="CSV", help="what ncu --csv printed")
    arguments = parser.parse_args()
    every = list(patterns())
    if arguments.metrics:
        print(f"{WAVEFRONTS},{CONFLICTS}")
    elif arguments.run:
        run(every)
    elif arguments.compare is not None:
        return 0 if compare(every, counted(arguments.compare.read_text(encoding="utf-8"))) else 1
    else:
        for pattern in every:
            print(
                f"{pattern.name:<24}{pattern.access.wavefronts:>4} wavefronts, {pattern.access.conflicts:>3} conflicts"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
