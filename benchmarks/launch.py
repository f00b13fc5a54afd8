"""Host time of a launch: `launch()`, a prepared launch and Triton, in turns, in one run.

    PYTHONPATH=. python benchmarks/launch.py [--rounds N] [--launches N] [--without-triton]

The kernel takes three arrays and three integers, and does nothing: ours takes the arrays as tensor maps, Triton's as
pointers. Each round launches `--launches` times in every way. It then waits for the GPU, which is not measured. Half
of the work of launch() itself is to ask three PyTorch tensors what they are (0.7 us each, for six answers). The rest is
to look that up, and to handle the numbers, the grid, and the line that launches.

Prints microseconds for each launch: the least, the median, and the greatest of the means of the rounds. Needs a Hopper
GPU and PyTorch.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import nvbackend as nvb
from benchmarks.arguments import end_without_pytorch
from nvbackend import f16, i32

MOST_MICROSECONDS = 12.0
"""What the project promises of a launch with three tensor maps."""
SIZE = 4096
GRID = (132, 1, 1)
MATRIX = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]


@nvb.kernel("sm_90a", threads=128)
def nothing(k: nvb.KernelBuilder, a: MATRIX, b: MATRIX, c: MATRIX, m: i32, n: i32, depth: i32) -> None:
    """Takes what a GEMM takes, and returns."""


def triton_launch(arrays: list[Any]) -> Callable[[], object]:
    """The same by Triton."""
    import triton  # type: ignore[import-not-found]

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def nothing_of_triton(a, b, c, m, n, depth):  # type: ignore[no-untyped-def]
        pass

    return lambda: nothing_of_triton[GRID](*arrays, SIZE, SIZE, SIZE, num_warps=4)


def contestants(with_triton: bool) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    import torch
    from numba import cuda

    loaded = nvb.runtime.load(nothing.compile())
    tensors = [torch.zeros(SIZE, SIZE, device="cuda", dtype=torch.float16) for _ in range(3)]
    arrays = [cuda.device_array((SIZE, SIZE), "float16") for _ in range(3)]
    rotating = [[tensors[(place + turn) % 3] for place in range(3)] for turn in range(3)]
    turn = iter(range(1 << 62))
    extents = (SIZE, SIZE, SIZE)
    ways: dict[str, Callable[[], object]] = {
        "prepared": loaded.prepare(GRID, *tensors, *extents).run,
        "launch, PyTorch": lambda: loaded.launch(GRID, *tensors, *extents),
        "launch, other arrays each": lambda: loaded.launch(GRID, *rotating[next(turn) % 3], *extents),
        "launch, numba": lambda: loaded.launch(GRID, *arrays, *extents),
        "kernel[grid](), PyTorch": lambda: loaded[GRID, None](*tensors, *extents),
    }
    if with_triton:
        ways["Triton"] = triton_launch(tensors)
    return ways


def measure(
    ways: dict[str, Callable[[], object]], rounds: int, launches: int, synchronize: Callable[[], object]
) -> dict[str, list[float]]:
    """Microseconds a launch, a mean a round; the first of each round's ways moves on, as clocks and caches do."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(-1, rounds):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            launch = ways[name]
            launch()
            synchronize()
            start = time.perf_counter()
            for _ in range(launches):
                launch()
            taken = time.perf_counter() - start
            synchronize()
            if turn >= 0:
                found[name].append(taken / launches * 1e6)
    return found


def main() -> int:
    """Print the table; 1 where a launch takes longer than promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    # The driver takes about a thousand launches before it makes the host wait.
    parser.add_argument("--launches", type=int, default=400)
    parser.add_argument("--without-triton", action="store_true")
    chosen = parser.parse_args()
    end_without_pytorch()
    import torch

    ways = contestants(not chosen.without_triton)
    found = measure(ways, chosen.rounds, chosen.launches, torch.cuda.synchronize)
    print(f"{'microseconds a launch':<26}{'least':>8}{'median':>8}{'most':>8}")
    for name, samples in found.items():
        print(f"{name:<26}{min(samples):8.1f}{statistics.median(samples):8.1f}{max(samples):8.1f}")
    ours = statistics.median(found["launch, PyTorch"])
    print(f"launch() with three tensor maps: {ours:.1f}, wanted: at most {MOST_MICROSECONDS:.0f}")
    return 0 if ours <= MOST_MICROSECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
