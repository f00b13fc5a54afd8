"""GEMMs of the shapes that people run, each by the kernel that the model chooses, against cuBLAS, in turns in one run.

    PYTHONPATH=. python -m benchmarks.gemm_shapes [--rounds N] [--all] [SIZE ...]        SIZE is MxNxK

Both launch from a CUDA graph, so that no host time counts, over so many sets of matrices that none stays in L2. With
`--all`, every candidate is measured, and the best ones are printed: what the model's rates come from. A star marks the
model's choice. Needs a Hopper GPU and PyTorch (whose f16 `matmul` is cuBLAS). A ratio is cuBLAS's time over ours.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any

import nvbackend as nvb
from benchmarks.turns import graph_of, microseconds, turns_for
from samples.gemm.choice import Choice, candidates, choose

CUBES = tuple("x".join([str(extent)] * 3) for extent in (1024, 2048, 4096, 8192, 16384))
SIZES = (
    *CUBES,
    "8192x8192x1024",
    "8192x1024x8192",
    "4096x14336x4096",
    "4096x4096x14336",
    "128x8192x8192",
    "16x8192x8192",
    "5000x3000x2000",
)
SHOWN = 5
"""Candidates that `--all` prints for each shape."""


class Matrices:
    """Sets of A, B and C on the GPU, taken in turns."""

    def __init__(self, m: int, n: int, k: int) -> None:
        import torch

        size = 2 * (m * k + n * k + m * n)
        self.turns = turns_for(size)
        make = lambda rows, columns: torch.randn(rows, columns, device="cuda", dtype=torch.float16)  # noqa: E731
        self.sets = [(make(m, k), make(n, k)) for _ in range(self.turns)]
        self.results = [torch.empty(m, n, device="cuda", dtype=torch.float16) for _ in range(self.turns)]
        self.expected = [torch.matmul(a, b.T) for a, b in self.sets]

    def graph(self, launch: Callable[[Any, Any, Any, Any], object]) -> Any:
        """A CUDA graph of a launch for each set."""
        return graph_of(self.turns, lambda turn, stream: launch(*self.sets[turn], self.results[turn], stream))

    def check(self, name: object, graph: Any) -> None:
        """Raises AssertionError where the results are not cuBLAS's, up to the order of sums."""
        import torch

        for result in self.results:
            result.fill_(math.nan)
        graph.replay()
        torch.cuda.synchronize()
        for result, expected in zip(self.results, self.expected, strict=True):
            error = float((result.float() - expected.float()).abs().max() / expected.float().abs().max())
            assert error < 2**-9, f"{name}: an error of {error:.1e} of the largest value"


def measure(size: str, rounds: int, *, every: bool) -> dict[Choice, tuple[float, float]]:
    """Microseconds of cuBLAS and of each choice that was measured."""
    import torch

    m, n, k = (int(extent) for extent in size.split("x"))
    matrices = Matrices(m, n, k)
    graphs: dict[Any, Any] = {"cuBLAS": matrices.graph(lambda a, b, c, _: torch.matmul(a, b.T, out=c))}
    for choice in candidates(m, k) if every else [choose(m, n, k)]:
        loaded = nvb.runtime.load(choice.kernel.compile(check=not every))
        grid, last = choice.launch_of(m, n, k, loaded.device.limits.multiprocessors)

        def launch(a: Any, b: Any, c: Any, stream: Any, loaded=loaded, grid=grid, last=last) -> None:  # type: ignore[no-untyped-def]
            loaded.prepare(grid, a, b, c, *last, stream=stream).run()

        graphs[choice] = matrices.graph(launch)
    for name, graph in graphs.items():
        matrices.check(name, graph)
    took = microseconds({str(name): graph for name, graph in graphs.items()}, matrices.turns, rounds)
    return {name: (took["cuBLAS"], took[str(name)]) for name in graphs if name != "cuBLAS"}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("sizes", nargs="*", default=SIZES, metavar="SIZE")
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--all", action="store_true", help="measure every candidate")
    chosen = arguments.parse_args()
    print(f"{'M x N x K':>18} {'cuBLAS':>9} {'ours':>9} {'ratio':>6}  (microseconds, medians)")
    ratios: dict[str, list[float]] = {"the model's choices": [], "the best candidates": []}
    for size in chosen.sizes:
        measured = measure(size, chosen.rounds, every=chosen.all)
        model = choose(*(int(extent) for extent in size.split("x")))
        ranked = sorted(measured, key=lambda choice: measured[choice][1])
        for choice in [*ranked[:SHOWN], *([model] if model in ranked[SHOWN:] else [])]:
            theirs, ours = measured[choice]
            mark = "*" if choice == model else " "
            print(f"{size:>18} {theirs:9.1f} {ours:9.1f} {theirs / ours:6.3f} {mark} {choice}", flush=True)
        for name, choice in zip(ratios, (model, ranked[0]), strict=True):
            ratios[name].append(math.log(measured[choice][0] / measured[choice][1]))
    for name, logarithms in list(ratios.items())[: 1 + chosen.all]:
        print(
            f"geometric mean of {len(logarithms)} ratios of {name}: {math.exp(sum(logarithms) / len(logarithms)):.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
