"""Candidates that are measured, by a clock that needs no GPU."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32
from tests.rules.example import program


class Clock:
    """One that counts how often it is asked."""

    now = 0

    def mark(self):
        self.now += 1
        return self.now

    def milliseconds(self, start, end):
        return end - start


clock = Clock()


@nvb.kernel("sm_90a", threads=32)
def fill(k, out: nvb.Pointer[f32], *, value=1.0):
    out[k.thread_id()] = value


@program("tune.wrong-numbers")
def candidate_that_is_wrong():
    out = np.zeros(32, np.float32)
    candidates = {"one": fill, "other": fill.with_(value=2.0)}  # breaks
    candidates = {"one": fill, "other": fill.with_(value=0.5 + 0.5)}  # keeps
    tuned = nvb.tune(
        candidates,
        prepare=lambda name, loaded: loaded.prepare(1, out),
        check=lambda name: out.tolist() == [1.0] * 32,
        key="rules",
        device="simulator",
        clock=clock,
        assemble=False,
        cache=nvb.Cache.disabled(),
    )
    return [diagnostic for error in tuned.failed.values() for diagnostic in error.diagnostics]


@program("tune.no-candidate")
def candidates_without_a_grid():
    out = np.zeros(32, np.float32)
    grid = 0  # breaks
    grid = 1  # keeps
    nvb.tune(
        {"one": fill, "other": fill.with_(value=2.0)},
        prepare=lambda name, loaded: loaded.prepare(grid, out),
        key="rules",
        device="simulator",
        clock=clock,
        assemble=False,
        cache=nvb.Cache.disabled(),
    )
