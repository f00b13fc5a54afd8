"""Device functions, expanded in place and called: the same numbers both ways, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, u32
from tests.support.devices import ON_DEVICES, target_on

pytestmark = ON_DEVICES
THREADS = 64


def launched(device, kernel, *arrays):
    """The arrays after a launch of one CTA."""
    from numba import cuda

    from nvbackend import runtime

    loaded = runtime.load(kernel.compile(target=target_on(device, "sm_80")))
    placed = [cuda.to_device(array) for array in arrays]
    loaded.launch(1, *placed)
    loaded.synchronize()
    return [array.copy_to_host() for array in placed]


def collatz(inline):
    @nvb.function(inline=inline)
    def half(k, x: u32) -> u32:
        return x // 2

    @nvb.function(inline=inline)
    def steps(k, x: u32, limit: i32) -> tuple[i32, u32]:
        """Steps to 1, and the largest number on the way: a loop, divergent, with a call in each branch."""
        count, largest, now = k.var(0), k.var(x), k.var(x)
        with k.range(limit):
            k.break_if(now == 1)
            with k.if_(now % 2 == 0):
                now.set(half(k, now))
            with k.else_():
                now.set(now * 3 + 1)
            largest.set(k.select(now > largest, now, largest))
            count += 1
        return count, largest.value

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k, out: nvb.Pointer[i32], most: nvb.Pointer[u32]):
        t = k.thread_id()
        with k.if_(t % 3 != 0):  # threads of one warp call apart
            count, largest = steps(k, t.to(u32) + 1, 200)
            out[t] = count
            most[t] = largest

    return kernel


@pytest.mark.parametrize("inline", [False, True])
def test_divergent_calls_in_loops(device, inline) -> None:
    out, most = launched(device, collatz(inline), np.full(THREADS, -1, np.int32), np.zeros(THREADS, np.uint32))
    for t in range(THREADS):
        x, count, largest = t + 1, 0, t + 1
        while x != 1 and t % 3:
            x, count = (x // 2 if x % 2 == 0 else 3 * x + 1), count + 1
            largest = max(largest, x)
        assert (out[t], most[t]) == ((count, largest) if t % 3 else (-1, 0))


@pytest.mark.parametrize("inline", [False, True])
def test_pointers_barriers_and_shuffles_in_a_function(device, inline) -> None:
    """A sum over the CTA through shared memory that the kernel allocates, and its barriers in the function."""

    @nvb.function(inline=inline)
    def total(k, part: nvb.Pointer(f32, space="shared", align=4), x: f32) -> f32:
        with k.if_(k.lane_id() == 0):
            part[k.warp_id()] = 0.0
        warp = k.warp.reduce("add", x)
        with k.if_(k.lane_id() == 0):
            part[k.warp_id()] = warp
        k.barrier.sync()
        both = part[0] + part[1]
        k.barrier.sync()
        return both

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
        t, part = k.thread_id(), k.shared(f32, 2)
        first = total(k, part, x[t])
        out[t] = total(k, part, x[t] * first)

    x = np.arange(THREADS, dtype=np.float32)
    _, out = launched(device, kernel, x, np.zeros(THREADS, np.float32))
    assert np.array_equal(out, np.full(THREADS, (x * x.sum()).sum(), np.float32))


@pytest.mark.parametrize("inline", [False, True])
def test_return_ends_the_function_and_not_the_kernel(device, inline) -> None:
    @nvb.function(inline=inline)
    def put(k, p: nvb.Pointer[i32], at: i32, x: i32, *, factor: int = 2):
        k.return_if(at % 4 == 1)
        with k.range(3) as i:
            k.return_if(i == at)
            p[at] = x * factor + i

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k, out: nvb.Pointer[i32], after: nvb.Pointer[i32]):
        t = k.thread_id()
        put(k, out, t, t + 5)
        put(k, after, t, 1, factor=3)
        after[t] = after[t] + 100

    out, after = launched(device, kernel, np.zeros(THREADS, np.int32), np.zeros(THREADS, np.int32))

    def expected(t, x, factor):
        last = 0 if t % 4 == 1 else None
        if last is None:
            done = [x * factor + i for i in range(3) if i < t or t > 2]
            last = done[-1] if done else 0
        return last

    assert out.tolist() == [expected(t, t + 5, 2) for t in range(THREADS)]
    assert after.tolist() == [expected(t, 1, 3) + 100 for t in range(THREADS)]


@pytest.mark.parametrize("element", [nvb.f16, nvb.bf16, nvb.f64, nvb.s8, nvb.u16, nvb.s64, nvb.pred], ids=str)
def test_every_type_is_passed_and_returned_by_a_called_function(device, element) -> None:
    @nvb.function(inline=False)
    def twice(k, x: element, n: i32) -> tuple[element, i32]:
        return (~x if element is nvb.pred else x + x), n + 1

    @nvb.kernel("sm_80", threads=THREADS)
    def kernel(k, out: nvb.Pointer[f32], counts: nvb.Pointer[i32]):
        t = k.thread_id()
        x = t % 2 == 0 if element is nvb.pred else t.to(element)
        y, count = twice(k, x, t)
        out[t] = k.select(y, 1.0, 0.0) if element is nvb.pred else y.to(f32)
        counts[t] = count

    out, counts = launched(device, kernel, np.zeros(THREADS, np.float32), np.zeros(THREADS, np.int32))
    t = np.arange(THREADS)
    assert out.tolist() == (t % 2 if element is nvb.pred else 2.0 * t).tolist()
    assert counts.tolist() == (t + 1).tolist()
