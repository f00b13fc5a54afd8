"""GEMMs of the shapes that people run, each by the kernel that the model chooses, against cuBLAS, in turns in one run.

    PYTHONPATH=. python -m benchmarks.gemm_shapes [--rounds N] [--all | --tuned] [--few | --middle | MxNxK ...]

Both launch from a CUDA graph, so that no host time counts, over so many sets of matrices that none stays in L2. A
ratio is cuBLAS's time divided by ours. Needs a Hopper GPU and PyTorch (whose f16 `matmul` is cuBLAS).

With `--all`, every candidate is measured, and the best ones are printed; the rates of the model are fitted to these. A
star marks the model's choice. `--tuned` measures them, too, and prints a line for each shape that compares the model's
choice with the best candidate: what the choice loses, its rank among all candidates, the time that the model predicts,
and the error of the prediction. `--most N` measures only the model's first N. `--few` takes shapes with few rows of A,
as in decoding. `--middle` takes those of layers of language models with 64 to 1024 rows, whose tiles fill the
multiprocessors once or twice.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any

import nvbackend as nvb
from benchmarks.arguments import end_without_pytorch, extents, product
from benchmarks.machine import machine
from benchmarks.turns import MEDIANS, Took, graph_of, microseconds, turns_for
from samples.gemm.choice import Choice, candidates
from samples.problem import positive
from samples.tuning import JOBS

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
FEW_ROWS = tuple(
    f"{m}x{n}x{k}" for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (8192, 8192)) for m in (1, 16, 64, 128)
)
"""Shapes of decoding: a row of A for each token."""
LAYERS = ((4096, 4096), (5120, 5120), (7168, 7168), (14336, 4096))
MIDDLE = tuple(f"{m}x{n}x{k}" for n, k in LAYERS for m in (64, 128, 256, 512, 1024))
"""Shapes with tiles for one wave or two: those of another width may leave half of the multiprocessors idle."""
SHOWN = 5
"""Candidates that `--all` prints for each shape."""

HEADS = {
    False: f"{'':>6} {'ours':>9} {'':>6} {'ratio':>6}",
    True: f"{'choice':>9} {'best':>9} {'loss':>7} {'place':>10} {'model':>9} {'off':>7}",
}

Compiled = Mapping[Choice, nvb.CompiledKernel]


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


def compiled(choices: Iterable[Choice], jobs: int, *, check: bool) -> Compiled:
    """The kernels, compiled in several processes."""
    every = list(dict.fromkeys(choices))
    with ProcessPoolExecutor(min(jobs, len(every)), mp_context=multiprocessing.get_context("spawn")) as executor:
        futures = [executor.submit(choice.kernel.compile, check=check) for choice in every]
        return {choice: future.result() for choice, future in zip(every, futures, strict=True)}


def measure(size: str, rounds: int, kernels: Compiled) -> tuple[Took, dict[Choice, Took]]:
    """Microseconds of cuBLAS and of each kernel, the fastest first."""
    import torch

    m, n, k = extents(size)
    matrices = Matrices(m, n, k)
    graphs: dict[Any, Any] = {"cuBLAS": matrices.graph(lambda a, b, c, _: torch.matmul(a, b.T, out=c))}
    for choice, kernel in kernels.items():
        loaded = nvb.runtime.load(kernel)
        grid, last = choice.launch_of(m, n, k, loaded.device.limits.multiprocessors)

        def launch(a: Any, b: Any, c: Any, stream: Any, loaded=loaded, grid=grid, last=last) -> None:  # type: ignore[no-untyped-def]
            loaded.prepare(grid, a, b, c, *last, stream=stream).run()

        graphs[choice] = matrices.graph(launch)
    for name, graph in graphs.items():
        matrices.check(name, graph)
    took = microseconds({str(name): graph for name, graph in graphs.items()}, matrices.turns, rounds)
    ours = {choice: took[str(choice)] for choice in kernels}
    return took["cuBLAS"], dict(sorted(ours.items(), key=lambda item: item[1]))


def rows(size: str, cublas: Took, ours: Mapping[Choice, Took], model: Choice) -> Iterable[str]:
    """The best ones that were measured, and the model's choice."""
    for place, (choice, time) in enumerate(ours.items()):
        if place < SHOWN or choice == model:
            mark = "*" if choice == model else " "
            spreads = f"{cublas.spread:6.1%} {time:9.1f} {time.spread:6.1%}"
            yield f"{size:>18} {cublas:9.1f} {spreads} {cublas / time:6.3f} {mark} {choice.label}"


def row(size: str, cublas: float, ours: Mapping[Choice, float], model: Choice, said: float) -> str:
    """The model's choice beside the best one."""
    best, took = next(iter(ours)), ours[model]
    place, loss = list(ours).index(model) + 1, took / ours[best] - 1
    wrong = "the same" if best == model else f"best: {best.label}"
    return (
        f"{size:>18} {cublas:9.1f} {took:9.1f} {ours[best]:9.1f} {loss:+7.1%} {place:>4} of {len(ours):<2} "
        f"{said:9.1f} {said / took - 1:+7.1%}  {model.label}; {wrong}"
    )


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("sizes", nargs="*", type=product, default=SIZES, metavar="MxNxK")
    arguments.add_argument("--rounds", type=positive, default=20)
    which = arguments.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="measure every candidate")
    which.add_argument("--tuned", action="store_true", help="the same, with the model's choice beside the best one")
    arguments.add_argument("--most", type=positive, metavar="N", help="of those only the N that the model has first")
    arguments.add_argument("--jobs", type=positive, default=JOBS, metavar="N", help="processes that compile them")
    of = arguments.add_mutually_exclusive_group()
    of.add_argument("--few", dest="set", action="store_const", const=FEW_ROWS, help="shapes with few rows of A")
    of.add_argument("--middle", dest="set", action="store_const", const=MIDDLE, help="shapes of a wave or two")
    chosen = arguments.parse_args()
    every = chosen.all or chosen.tuned
    if chosen.set and chosen.sizes is not SIZES:
        arguments.error("--few and --middle name shapes: leave out one of them or MxNxK")
    if chosen.most and not every:
        arguments.error("--most is for --all and --tuned, which are not there")
    end_without_pytorch()
    print(machine())
    sizes = chosen.set or chosen.sizes
    said = {size: candidates(*extents(size)) for size in sizes}
    taken = {size: list(islice(ranked, chosen.most if every else 1)) for size, ranked in said.items()}
    kernels = compiled((choice for choices in taken.values() for choice in choices), chosen.jobs, check=not every)
    print(f"{'M x N x K':>18} {'cuBLAS':>9} {HEADS[chosen.tuned]}  (microseconds, {MEDIANS})")
    ratios: dict[str, list[float]] = {"the model's choices": [], "the best candidates": []}
    for size, choices in taken.items():
        model = choices[0]
        cublas, ours = measure(size, chosen.rounds, {choice: kernels[choice] for choice in choices})
        if chosen.tuned:
            print(row(size, cublas, ours, model, said[size][model]), flush=True)
        else:
            print("\n".join(rows(size, cublas, ours, model)), flush=True)
        for name, time in zip(ratios, (ours[model], min(ours.values())), strict=True):
            ratios[name].append(cublas / time)
    for name, each in list(ratios.items())[: 1 + every]:
        print(f"geometric mean of {len(each)} ratios of {name}: {mean(each):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
