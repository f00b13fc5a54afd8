"""Buffers that are cleared before they are filled."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.kernels.parts import OUT, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene


def _cut(*counts):
    def launch(count):
        x = small(count, count, kind=np.float32)
        return Launch(1, (x, Out(np.pad(x, (0, 128 - count))[::-1].copy()), count))

    return lambda: [launch(count) for count in counts]


@scene(
    "threads by hand",
    _cut(128, 70, 1),
    why="Each thread clears another place than it fills, after a barrier.",
    no_barrier=Mistake("race", "A place may be cleared after another thread has filled it."),
    variants={"own_place": "Each thread clears the place that it fills: program order is enough."},
)
@nvb.kernel("sm_80", threads=128)
def cut(k, x: OUT, y: OUT, count: nvb.i32(minimum=1, maximum=128), *, mistake=None):
    """y is x, filled up with zeros to 128 elements, turned round."""
    wrong, thread = named(mistake), k.thread_id()
    row = k.shared(f32, 128, name="row")
    own = wrong("own_place")
    row[thread if own else k.const(127, i32) - thread] = 0.0
    if not own and not wrong("no_barrier"):
        k.barrier.sync()
    with k.if_(thread < count):
        row[thread] = x[thread]
    k.barrier.sync()
    y[thread] = row[127 - thread]
