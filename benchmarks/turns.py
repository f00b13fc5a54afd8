"""Times of several ways to do the same work, launched from CUDA graphs over so many operands that none stays in L2."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import nvbackend as nvb
from samples.turns import rounds_for, turns_for

__all__ = ["graph_of", "microseconds", "turns_for"]


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


def microseconds(graphs: Mapping[str, Any], turns: int, rounds: int) -> dict[str, float]:
    """The median time of a launch of each."""
    import torch

    ways = {name: graph.replay for name, graph in graphs.items()}
    timings = nvb.runtime.time_launches(ways, rounds=rounds, repeats=2, warmup=8, stream=torch.cuda.current_stream())
    return {
        name: statistics.median(timing.samples) * 1e3 / (rounds_for(turns) * turns) for name, timing in timings.items()
    }
