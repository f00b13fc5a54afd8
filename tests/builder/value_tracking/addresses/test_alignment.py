"""memory.misaligned: promises and addresses that are certainly wrong, against a Python loop over threads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import f32, i32, u8, u32
from tests.support.runtime import rules

RULE = "memory.misaligned"
POWERS = st.sampled_from([1, 2, 4, 8, 16, 32])


@settings(max_examples=60, deadline=None)
@given(declared=POWERS, promised=POWERS, factor=st.integers(0, 40), step=st.integers(0, 64), inside=st.integers(1, 32))
def test_promises(declared, promised, factor, step, inside) -> None:
    def build():
        parameters = [nvb.Parameter("x", nvb.Pointer(f32, align=declared)), nvb.Parameter("n", nvb.Scalar(i32))]
        k = nvb.KernelBuilder("promise", "sm_90a", threads=32, parameters=parameters)
        x, n = k.arguments
        with k.if_(k.thread_id() < inside):
            x.byte_offset(k.thread_id() * factor + step, align=promised)
            x.byte_offset(n * factor, align=promised)

    span = min(declared, promised)
    wrong = any((thread * factor + step) % span for thread in range(inside))
    assert (RULE in rules(build)) is wrong


@pytest.mark.parametrize("align", [0, -16, 48])
def test_what_is_no_alignment(align: int) -> None:
    @nvb.kernel("sm_90a", threads=32)
    def promise(k, x: nvb.Pointer[f32]):
        x.byte_offset(0, align=align)

    assert rules(promise.build) == [RULE]


@pytest.mark.parametrize(
    ("pitch", "start", "found"), [(16, 0, []), (8, 0, [RULE]), (32, 8, [RULE]), (48, 16, []), (0, 4, [RULE])]
)
def test_rows_of_matrices_and_copies(pitch: int, start: int, found: list[str]) -> None:
    def matrix(k, tile, x):
        k.mma.ldmatrix(tile + k.lane_id() * pitch + start, 4)

    def copy(k, tile, x):
        k.cp_async.copy(tile, x + k.lane_id() * pitch + start, 16)

    for body in (matrix, copy):
        assert rules(_kernel(body).build) == found


def _kernel(body):
    @nvb.kernel("sm_90a", threads=32)
    def whole(k, x: nvb.Pointer[u8]):
        body(k, k.shared(u8, 4096, align=16), x)

    return whole


@pytest.mark.parametrize(("word", "found"), [(0, []), (1, [RULE]), (2, [RULE]), (4, [])])
def test_the_answer_of_a_cancelled_launch(word: int, found: list[str]) -> None:
    """PTX ISA, clusterlaunchcontrol.try_cancel: it is written at a multiple of 16 bytes."""

    @nvb.kernel("sm_100a", threads=32)
    def asks(k):
        answer, asked = k.shared(u32, 8, align=16), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(asked, expect_tx=16)
            k.launch_control.try_cancel(answer + word, asked)
        k.mbarrier.wait(asked, 0)

    assert rules(asks.build) == found


def test_memory_that_is_aligned_by_where_it_lies() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def first(k):
        k.mma.ldmatrix(k.shared(u8, 4096, align=1) + k.lane_id() * 16, 4)

    @nvb.kernel("sm_90a", threads=32)
    def second(k):
        k.shared(u8, 4)
        k.mma.ldmatrix(k.shared(u8, 4096, align=4) + k.lane_id() * 16, 4)

    assert (rules(first.build), rules(second.build)) == ([], [RULE])


@pytest.mark.parametrize(
    "wanted", [0, 3, -16, 1 << 40, 10**5000], ids=["zero", "odd", "negative", "too-great", "unprintable"]
)
def test_a_check_of_what_is_no_alignment(wanted: int) -> None:
    k = nvb.KernelBuilder("k", "sm_90a", threads=32, parameters=[nvb.Parameter("p", nvb.Pointer(f32))])
    assert rules(lambda: k.arguments[0]._check_aligned(wanted, "ld")) == [RULE]
    assert rules(lambda: k.arguments[0]._how_to_align(wanted)) == [RULE]


def test_a_choice_of_thousands_of_digits_is_refused_by_its_size() -> None:
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    with pytest.raises(nvb.DiagnosticError, match=f"an integer of {(10**5000).bit_length()} bits"):
        k.mma.ldmatrix(k.shared(f32, 64), 10**5000)
