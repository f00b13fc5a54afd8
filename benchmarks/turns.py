"""Times of several ways to do the same work, launched from CUDA graphs over so many operands that none stays in L2."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import nvbackend as nvb
from samples.turns import rounds_for, turns_for

__all__ = ["MEDIANS", "Took", "graph_of", "microseconds", "pass_of", "timed", "turns_for"]

MEDIANS = "medians, and half of the range between quartiles"


def graph_of(turns: int, launch: Callable[[int, Any], object]) -> Any:
    """A CUDA graph with `launch(turn, stream)` for each set of operands, again and again."""
    import torch

    launch(0, torch.cuda.current_stream())  # what libraries allocate at the first call cannot be captured
    torch.cuda.synchronize()
    return captured(turns, launch)


def captured(turns: int, launch: Callable[[int, Any], object]) -> Any:
    """The graph of launches that ran before. Raises RuntimeError where one of them cannot be captured."""
    import torch

    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=stream):
        for launched in range(rounds_for(turns) * turns):
            launch(launched % turns, stream)
    return graph


def pass_of(turns: int, launch: Callable[[int, Any], object]) -> tuple[Callable[[], object], bool]:
    """What launches as often as `graph_of`, and whether it is from a graph: not every library's call can be captured.

    Raises what the first launch raises.
    """
    import torch

    stream = torch.cuda.current_stream()
    launch(0, stream)
    torch.cuda.synchronize()
    if not waits(lambda: launch(0, stream)):
        try:
            return captured(turns, launch).replay, True
        except RuntimeError:
            torch.cuda.set_stream(stream)  # a capture that fails leaves its own one
            torch.cuda.synchronize()

    def again() -> None:
        for launched in range(rounds_for(turns) * turns):
            launch(launched % turns, stream)

    return again, False


def waits(launch: Callable[[], object]) -> bool:
    """Whether a call waits for the GPU: its capture would fail, after which PyTorch makes no random numbers."""
    import torch

    torch.cuda.set_sync_debug_mode("error")
    try:
        launch()
    except RuntimeError:
        return True
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return False


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
    return timed({name: graph.replay for name, graph in graphs.items()}, turns, rounds)


def timed(
    passes: Mapping[str, Callable[[], object]], turns: int, rounds: int, *, repeats: int = 2, warmup: int = 8
) -> dict[str, Took]:
    """How long a launch takes, for each of what goes through all sets; in turns."""
    import torch

    stream = torch.cuda.current_stream()
    timings = nvb.runtime.time_launches(passes, rounds=rounds, repeats=repeats, warmup=warmup, stream=stream)
    launches = rounds_for(turns) * turns
    return {name: Took.of([sample * 1e3 / launches for sample in timing.samples]) for name, timing in timings.items()}
