"""Register fragments of wgmma: formulas typed a second time from PTX ISA 9.7.15.5.1 and CuTe's layouts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.fragments.warpgroup import (
    a_position,
    accumulator_position,
    chunk_width,
    metadata_chunk,
    metadata_counts,
    one_of_two,
    two_of_four,
)

THREADS = range(128)


@pytest.mark.parametrize("n", [8, 64, 136, 256])
def test_accumulator_as_the_isa_prints_it(n: int) -> None:
    for thread, index in itertools.product(THREADS, range(n // 2)):
        lane = thread % 32
        row = (thread // 32) * 16 + lane // 4 + 8 * ((index // 2) % 2)
        column = (index // 4) * 8 + 2 * (lane % 4) + index % 2
        assert accumulator_position(thread, index) == (row, column)


@pytest.mark.parametrize("n", [8, 24, 256])
def test_accumulator_holds_each_element_once(n: int) -> None:
    held = [accumulator_position(thread, index) for thread in THREADS for index in range(n // 2)]
    assert sorted(held) == [(row, column) for row in range(64) for column in range(n)]


def cute(place: int, shape: Sequence[int], stride: Sequence[int]) -> int:
    """CuTe's layout function: the coordinate of `place` in `shape`, first mode fastest, times the strides."""
    offset = 0
    for extent, step in zip(shape, stride, strict=True):
        offset += place % extent * step
        place //= extent
    return offset


A_LAYOUTS = {
    # CuTe's layouts of A over (thread, element), in column-major 64 x K: threads' strides, elements' shape and strides.
    16: (16, (128, 1, 16), (2, 2, 2), (64, 8, 512)),
    8: (32, (256, 1, 16), (4, 2, 2), (64, 8, 1024)),
    32: (8, (64, 1, 16), (2, 2), (8, 256)),
    1: (256, (2048, 1, 16), (32, 2, 2), (64, 8, 8192)),
}


@pytest.mark.parametrize("bits", A_LAYOUTS)
def test_a_as_cute_has_it(bits: int) -> None:
    k, thread_stride, shape, stride = A_LAYOUTS[bits]
    held = []
    for thread, index in itertools.product(THREADS, range(128 // bits)):
        offset = cute(thread, (4, 8, 4), thread_stride) + cute(index, shape, stride)
        assert a_position(thread, index, bits) == (offset % 64, offset // 64)
        held.append((offset % 64, offset // 64))
    assert sorted(held) == [(row, column) for row in range(64) for column in range(k)]


@pytest.mark.parametrize(
    ("bits", "formula"),
    [
        # PTX ISA 9.7.15.5.1.1: row and column of a_i for lane group g = lane / 4 and t = lane % 4.
        (16, lambda g, t, i: (g + (8 if i % 4 >= 2 else 0), 2 * t + (i & 1) + (8 if i >= 4 else 0))),
        (32, lambda g, t, i: (g + (8 if i in (1, 3) else 0), t + (4 if i >= 2 else 0))),
        (8, lambda g, t, i: (g + (8 if i % 8 >= 4 else 0), 4 * t + (i & 3) + (16 if i >= 8 else 0))),
        (1, lambda g, t, i: (g + (8 if i % 64 >= 32 else 0), 32 * t + (i & 31) + (128 if i >= 64 else 0))),
    ],
)
def test_a_as_the_isa_prints_it(bits: int, formula) -> None:
    for thread, index in itertools.product(THREADS, range(128 // bits)):
        warp, lane = divmod(thread, 32)
        row, column = formula(lane // 4, lane % 4, index)
        assert a_position(thread, index, bits) == (16 * warp + row, column)


METADATA_LAYOUTS = {
    # CuTe's ELayout: K, threads' shape and strides, and the 64 x K columns that a thread's 32 bits run over.
    8: (64, (2, 2, 8, 4), (8, 2048, 1, 16), (32,), (64,)),
    16: (32, (2, 2, 8, 4), (1024, 0, 1, 16), (16, 2), (64, 8)),
    32: (16, (2, 2, 8, 4), (512, 0, 1, 16), (8, 2), (64, 8)),
}


@pytest.mark.parametrize("bits", METADATA_LAYOUTS)
def test_metadata_as_cute_has_it(bits: int) -> None:
    _, shape, stride, columns_shape, columns_stride = METADATA_LAYOUTS[bits]
    width = chunk_width(bits)
    for thread, chunk in itertools.product(THREADS, range(8)):
        offset = cute(thread, shape, stride) + cute(chunk * width, columns_shape, columns_stride)
        assert metadata_chunk(thread, chunk, bits) == (offset % 64, offset // 64)


@pytest.mark.parametrize(("bits", "selector"), [(8, 0), (16, 0), (16, 1), (32, 0), (32, 1)])
def test_threads_that_count_cover_a_once(bits: int, selector: int) -> None:
    k = METADATA_LAYOUTS[bits][0]
    chunks = [
        metadata_chunk(thread, chunk, bits)
        for thread in THREADS
        if metadata_counts(thread, selector, bits)
        for chunk in range(8)
    ]
    assert sorted(chunks) == [(row, column) for row in range(64) for column in range(0, k, 2 if bits == 32 else 4)]


def test_selectors_name_the_first_or_the_last_two_of_four_threads() -> None:
    assert [thread for thread in range(8) if metadata_counts(thread, 0, 16)] == [0, 1, 4, 5]
    assert [thread for thread in range(8) if metadata_counts(thread, 1, 32)] == [2, 3, 6, 7]
    assert [thread for thread in range(8) if metadata_counts(thread, 0, 8)] == list(range(8))


def test_codes_of_kept_elements() -> None:
    codes = [two_of_four(first, second) for first, second in itertools.combinations(range(4), 2)]
    assert codes == [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110]
    assert [one_of_two(0), one_of_two(1)] == [0b0100, 0b1110]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accumulator_position(128, 0), "thread 128 is outside of 0 to 127"),
        (lambda: accumulator_position(0, 128), "index 128 is outside of 0 to 127"),
        (lambda: a_position(-1, 0, 16), "thread -1 is outside of 0 to 127"),
        (lambda: a_position(0, 8, 16), "index 8 is outside of 0 to 7"),
        (lambda: metadata_chunk(0, 8, 16), "chunk 8 is outside of 0 to 7"),
        (lambda: metadata_counts(128, 0, 16), "thread 128 is outside of 0 to 127"),
        (lambda: two_of_four(2, 2), "first 2 is outside of 0 to 1"),
        (lambda: two_of_four(0, 4), "second 4 is outside of 0 to 3"),
        (lambda: one_of_two(2), "place 2 is outside of 0 to 1"),
    ],
)
def test_outside_of_the_tile(call, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        call()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "fragment.range"
    assert found.message == message


@pytest.mark.parametrize("call", [a_position, metadata_chunk])
def test_widths_that_have_no_fragment(call) -> None:
    with pytest.raises(DiagnosticError) as caught:
        call(0, 0, 4)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "fragment.type"
    assert "4 bits" in found.message
