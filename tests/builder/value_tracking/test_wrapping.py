"""What the protocols count and place, with numbers that wrap around at their bits."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, i32, s4, u4, u8, u16, u32


def arrivals(condition, count: int) -> None:
    """A kernel in which those of 128 threads arrive for which `condition` holds; the mbarrier expects `count`."""

    def kernel(k, out: nvb.Pointer[u32]):
        full = k.mbarrier.array(1, arrivals=count)
        k.mbarrier.ready()
        with k.if_(condition(k.thread_id())):
            k.mbarrier.arrive(full)
        k.mbarrier.wait(full, 0)

    nvb.kernel("sm_90a", threads=128)(kernel).build()


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        (lambda t: t.to(u8) * 4 == 0, 2),
        (lambda t: (t.to(u16) * 1024).to(u32) == 0, 2),
        (lambda t: t.to(u8) << 2 == 0, 2),
        (lambda t: t.to(u4) == 0, 8),
        (lambda t: t.to(u32) * (1 << 28) == 0, 8),
        (lambda t: (t < 8) & (((t % 8).to(s4) + 1).to(i32) < 0), 1),
    ],
)
def test_arrivals_are_counted_with_numbers_that_wrap(condition, count: int) -> None:
    arrivals(condition, count)
    with pytest.raises(DiagnosticError, match=f"the kernel's arrivals are {count}"):
        arrivals(condition, count + 1)


@pytest.mark.parametrize(
    ("index", "most"),
    [
        (lambda t: (t.to(u8) * 4).to(u32), 253),
        (lambda t: t.to(u8) * 37, 256),
        (lambda t: (t.to(u16) * 40503) >> 6, 1024),
        (lambda t: (t.to(u32) * 2654435769) >> 22, 1024),
    ],
)
def test_indices_that_wrap_are_in_bounds(index, most: int) -> None:
    def load(elements: int) -> None:
        def kernel(k, out: nvb.Pointer[u32]):
            s = k.shared(u32, elements)
            out[k.thread_id()] = s[index(k.thread_id())]

        nvb.kernel("sm_90a", threads=128)(kernel).build()

    load(most)
    with pytest.raises(DiagnosticError, match="shared memory s from byte"):
        load(most // 2)


def test_an_unsigned_step_back_is_in_bounds() -> None:
    def kernel(k, out: nvb.Pointer[u32]):
        s = k.shared(u32, 128)
        out[k.thread_id()] = (s + 5)[k.thread_id().to(u32) - 5]

    assert nvb.kernel("sm_90a", threads=128)(kernel).build().diagnostics == ()
