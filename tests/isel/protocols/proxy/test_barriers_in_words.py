"""What is said of the mbarrier of a copy: its name, or that it is one of the copy where nobody knows which it is."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f16, i32
from tests.support.runtime import broken

MATRIX = nvb.TensorMap(f16, box=(64, 64), swizzle=0)
BYTES = 64 * 64 * 2


def said(names: tuple[str | None, ...], *, waits: bool) -> str:
    """The message for a read of a tile that copies fill, by mbarriers of these names; by one of two where it is None.

    One warp waits for all of them, or nobody does.
    """

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, matrix: MATRIX, out: nvb.Pointer[f16], n: i32):
        tile = k.shared(f16, 64 * 64 * len(names), align=128, name="tile")
        barriers = []
        for name in names:
            one, other = (k.mbarrier.array(1, 1, **({"name": name} if name else {})) for _ in range(2))
            barriers.append(
                k.shared_address(k.select(n > 0, one.bytes, other.bytes), nvb.u64, 8) if name is None else one
            )
        k.mbarrier.ready()
        with k.one_thread():
            for index, barrier in enumerate(barriers):
                k.mbarrier.arrive(barrier, expect_tx=BYTES)
                k.tma.load_box(tile + 64 * 64 * index, matrix, (0, 64 * index), barrier)
        if waits:
            with k.if_(k.warp_id() == 0):
                for barrier in barriers:
                    k.mbarrier.wait(barrier, 0)
        for index in range(len(names)):
            out[index] = tile[64 * 64 * index + k.thread_id()]

    (found,) = broken(kernel.build)
    return str(found.message)


CASES = [
    ((None,), "the mbarrier of the copy"),
    (("full",), "mbarrier full"),
    (("mbarrier",), "the mbarrier of the copy"),
]


@pytest.mark.parametrize(("names", "expected"), [*CASES, (("full", "also"), "mbarrier also, full")])
def test_nobody_waits(names: tuple[str | None, ...], expected: str) -> None:
    assert f"with no wait on {expected} between them" in said(names, waits=False)


@pytest.mark.parametrize(("name", "expected"), [(None, "its mbarrier"), ("full", "full"), ("mbarrier", "mbarrier")])
def test_others_wait(name: str | None, expected: str) -> None:
    assert said((name,), waits=True).endswith(f"which does not wait on {expected}: other threads do")
