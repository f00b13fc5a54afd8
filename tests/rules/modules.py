"""Several kernels in one module."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32
from tests.rules.example import program


@program("module.kernels")
def two_kernels_of_one_name():
    @nvb.kernel("sm_90a", threads=32)
    def scale(k, x: nvb.Pointer[f32], *, factor=2.0):
        x[k.thread_id()] = x[k.thread_id()] * factor

    larger = scale.with_(factor=3.0)  # breaks
    larger = scale.with_(factor=3.0, name="scale_by_3")  # keeps
    nvb.compile_module([scale, larger], assemble=False)
