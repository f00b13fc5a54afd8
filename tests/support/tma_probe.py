"""What a GPU makes of boxes at other starts and reductions of other types, each in a process of its own.

`python -m tests.support.tma_probe` runs what no test pins, and prints a table (it needs an H100 or H200).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

import nvbackend as nvb
from nvbackend.builder.values.values import as_value
from nvbackend.intrinsics.row.types import BY_NAME, u16
from nvbackend.isel.select.tma.request import TmaRequest
from nvbackend.isel.select.tma.select import select_tma
from nvbackend.signature import Im2col, Parameter, TensorMap
from tests.support.numbers_kernel import words
from tests.support.process import run_python

DONE = "done"
ILLEGAL = "illegal instruction"
PROGRAM = "import sys; from tests.support.tma_probe import launch; launch(*sys.argv[1:])"
PROCESSES = 8


@dataclass(frozen=True)
class Probe:
    """One copy: direction, element type of the map, where it starts (innermost, all others), mode, and reduction."""

    direction: str
    element: str
    column: int = 0
    mode: str = "tile"
    operation: str = ""
    row: int = 0

    def __str__(self) -> str:
        return " ".join(str(one) for one in astuple(self) if one != "")


def outcomes(probes: Sequence[Probe]) -> dict[Probe, str]:
    """What became of each, some at a time."""
    with ThreadPoolExecutor(PROCESSES) as pool:
        return dict(zip(probes, pool.map(_outcome, probes), strict=True))


def _outcome(probe: Probe) -> str:
    ended = run_python(PROGRAM, *map(str, astuple(probe)))
    if ended.returncode == 0:
        return DONE
    return ILLEGAL if ILLEGAL in ended.stderr.lower().replace("_", " ") else ended.stderr.strip()[-200:]


def launch(direction: str, element: str, column: str, mode: str, operation: str, row: str) -> None:
    """One launch, whose start is known at run time only, by calls that no rule of the builder looks at."""
    kind = BY_NAME[element]
    in_pixels = mode.startswith("im2col")
    tensor_map = TensorMap(kind, (8, 16), 0, Im2col(3, (0,), (0,))) if in_pixels else TensorMap(kind, (4, 16), 0)
    array = np.zeros((2, 16, 64) if in_pixels else (8, 64), kind.numpy_dtype())
    request = TmaRequest(tensor_map.rank, direction, mode, operation=operation or None)

    def body(k: Any, source: Any, out: Any, tensor: Any) -> None:
        tile, full = k.shared(nvb.u8, 4096, align=128), k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        innermost, others = (source[one].to(nvb.i32).ir for one in range(2))
        place = [innermost, *([others] * (tensor_map.rank - 1))]
        given: dict[str, Any] = {"tensor_map": tensor.address, "coordinates": place}
        if in_pixels and direction in ("load", "prefetch"):
            given["offsets"] = [as_value(k.core, 0, u16).ir]
        if direction == "load":
            given |= {"destination": tile.bytes.ir, "barrier": full.bytes.ir}
        elif direction != "prefetch":
            given["source"] = tile.bytes.ir
        with k.if_(k.thread_id() == 0):
            if direction == "load":
                k.mbarrier.arrive(full, expect_tx=tensor_map.bytes)
            k.emit(select_tma(request, k.target), given)
            if direction == "load":
                k.mbarrier.wait(full, 0)
            k.tma.commit_group()
            k.tma.wait_group()

    from numba import cuda

    start = np.array([int(one) & 0xFFFFFFFF for one in (column, row)], np.uint32)
    words(body, start, 1, (Parameter("tensor", tensor_map), cuda.to_device(array)))


UNPINNED = [
    *(Probe(way, "f16", column) for way in ("load", "prefetch") for column in (-16, -1, 64, 128)),
    *(Probe(way, "u32", 0, row=row) for way in ("load", "store") for row in (-4, -1, 7, 9)),
    *(Probe("prefetch", "f16", column, "im2col") for column in (0, 4, 1)),
    *(Probe("reduce", "f16", column, "im2col_no_offs", "add") for column in (0, 8, 4, 1, -8)),
    *(
        Probe("reduce", element, operation=way)
        for way in ("min", "inc", "or", "xor")
        for element in ("u32", "s64", "f32")
    ),
]
"""What no test pins."""


if __name__ == "__main__":
    for probe, outcome in outcomes(UNPINNED).items():
        sys.stdout.write(f"{probe!s:40} {outcome}\n")
