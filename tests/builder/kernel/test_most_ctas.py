"""How many CTAs of a kernel an SM has room for: the CUDA C++ Programming Guide's table, a second time."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError
from nvbackend.builder.kernel.bounds import LARGEST_CTA, SM_THREADS, checked_bounds
from nvbackend.isel.target.target import Target

RESIDENT = {
    70: (32, 2048),
    72: (32, 2048),
    75: (16, 1024),
    80: (32, 2048),
    86: (16, 1536),
    87: (16, 1536),
    88: (16, 1536),
    89: (24, 1536),
    90: (32, 2048),
    100: (32, 2048),
    101: (24, 1536),
    103: (32, 2048),
    110: (24, 1536),
    120: (24, 1536),
    121: (24, 1536),
}
"""By compute capability: resident CTAs and resident threads an SM."""


@pytest.mark.parametrize("number", RESIDENT)
def test_an_sm_has_room_for_so_many(number: int) -> None:
    ctas, threads = RESIDENT[number]
    target = Target.parse(f"sm_{number}")
    assert SM_THREADS.get(number, 2048) == threads
    for size in (32, 64, 96, 128, 512, 1024):
        most = min(ctas, threads // size)
        bounds, _ = checked_bounds(target, size, 1, most)
        assert (bounds.min_ctas, bounds.threads, bounds.dynamic_shared_bytes) == (most, size, 0)
        with pytest.raises(DiagnosticError) as caught:
            checked_bounds(target, size, 1, most + 1)
        (found,) = caught.value.diagnostics
        assert f"an SM of sm_{number} has room for {most} CTAs of {size} threads" in found.message
        # Fewer threads help where the threads are what is too many.
        assert (found.fix or "").endswith("or fewer threads") == ((most + 1) * size > threads)


@pytest.mark.parametrize("axis", range(3))
def test_a_cta_has_so_many_threads_along_each_axis(axis: int) -> None:
    assert LARGEST_CTA == (1024, 1024, 64)
    shape = [1, 1, 1]
    shape[axis] = LARGEST_CTA[axis]
    shape[0] *= 32 if axis == 2 else 1
    target = Target.parse("sm_90a")
    if shape[0] * shape[1] * shape[2] <= 1024:
        assert checked_bounds(target, tuple(shape), 1)[0].shape == tuple(shape)
    shape[axis] += 32
    with pytest.raises(DiagnosticError, match=r"kernel\.bounds"):
        checked_bounds(target, tuple(shape), 1)
