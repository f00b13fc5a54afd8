"""A kernel that winds the clock by which it is measured, in the simulator: executors find it by its name."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import nvbackend as nvb
from nvbackend import f32


@nvb.kernel("sm_90a", threads=32)
def fill(k: Any, ticks: nvb.Pointer[f32], out: nvb.Pointer[f32], *, cost: float = 1.0, value: float = 2.0) -> None:
    if cost == 0:
        raise KeyError("a mistake of the user's")
    thread = k.thread_id()
    out[thread] = value
    if cost < 0:
        k.mbarrier.array(0, arrivals=1)
    with k.if_(thread == 0):
        ticks[0] = ticks[0] + cost


class Bench:
    """Arrays, a clock that reads what the kernels write, and the arguments of `tune` that measure them."""

    def __init__(self, folder: os.PathLike[str] | None = None) -> None:
        self.ticks, self.out = np.zeros(1, np.float32), np.zeros(32, np.float32)
        self.cache = nvb.Cache.disabled() if folder is None else nvb.Cache(folder)
        self.prepared: list[str] = []

    def mark(self) -> float:
        return float(self.ticks[0])

    def milliseconds(self, start: float, end: float) -> float:
        return end - start

    def prepare(self, name: str, loaded: nvb.runtime.LoadedKernel) -> nvb.runtime.PreparedLaunch:
        self.prepared.append(name)
        self.out[:] = np.nan
        return loaded.prepare(1, self.ticks, self.out)

    def is_right(self, name: str) -> bool:
        return bool(np.all(self.out == 2.0))

    def tune(self, candidates: Any, **more: Any) -> nvb.Tuned:
        """`tune` in the simulator, by this clock; `more` are its other arguments, or others for these."""
        usual: dict[str, Any] = {"prepare": self.prepare, "check": self.is_right, "key": (32,), "clock": self}
        usual |= {"device": "simulator", "cache": self.cache, "assemble": False, "rounds": 3, "repeats": 2}
        return nvb.tune(candidates, **{**usual, **more})


def costing(**costs: float) -> dict[str, nvb.KernelDefinition]:
    """Candidates that wind the clock by so much."""
    return {name: fill.with_(cost=cost) for name, cost in costs.items()}
