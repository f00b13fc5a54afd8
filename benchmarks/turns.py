"""Times of several ways to do the same work, launched from CUDA graphs over so many operands that none stays in L2."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import nvbackend as nvb
from samples.turns import rounds_for, turns_for

__all__ = ["MEDIANS", "Took", "graph_of", "microseconds", "turns_for"]

MEDIANS = "medians, and half of the range between quartiles"


def graph_of(turns: int, launch: Callable[[int, Any], object]) -> Any:
    """A CUDA graph with `launch(turn, stream)` for each set of operands, again and again."""
    import torch

    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    launch(0, torch.cuda.current_stream())  # what libraries allocate at the first call cannot be captured
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for launched in range(rounds_for(turns) * turns):
            launch(launched % turns, stream)
    return graph


class Took(float):
    """The median time of a launch in microseconds; `spread` is half of the range between its quartiles, as a part."""

    spread: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Took:
        """Of two samples at least."""
        lower, middle, upper = statistics.quantiles(samples, n=4, method="inclusive")
        took = cls(middle)
        took.spread = (upper - lower) / 2 / middle
        return took


def microseconds(graphs: Mapping[str, Any], turns: int, rounds: int) -> dict[str, Took]:
    """How long a launch of each takes."""
    import torch

    ways = {name: graph.replay for name, graph in graphs.items()}
    timings = nvb.runtime.time_launches(ways, rounds=rounds, repeats=2, warmup=8, stream=torch.cuda.current_stream())
    launches = rounds_for(turns) * turns
    return {name: Took.of([sample * 1e3 / launches for sample in timing.samples]) for name, timing in timings.items()}
