"""How wide an access may be, against counting: the run that two layouts share, and what a thread's part allows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend import DiagnosticError, f16
from nvbackend.diagnostics import raise_all
from nvbackend.layout import ComposedLayout, Dynamic, Layout, Swizzle, make_layout, make_ordered_layout, size
from nvbackend.tiled import (
    cp_async_copy,
    ldmatrix_copy,
    make_tiled_copy,
    max_common_layout,
    max_common_vector,
    universal_copy,
)
from nvbackend.tiled.vectorize import access_faults, multiple
from tests.support.said import said


@pytest.mark.parametrize(("stride", "run"), [(1, 8), (Dynamic(1), 1), (2, 1), (0, 1)])
def test_a_run_is_of_elements_that_are_known_to_follow(stride, run):
    """A distance that is 1 in this launch only is none to rely on."""
    layout = Layout(((8, 1), 4), ((stride, 0), 64))
    assert bool(access_faults(universal_copy(f16, 128), layout, "the source", 16)) is (run < 8)
    assert access_faults(universal_copy(f16, 16), layout, "the source", 16) == []


@st.composite
def pairs(draw):
    """Two layouts of one shape, compact in any order, some with gaps."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=3)))
    found = []
    for _ in range(2):
        compact = make_ordered_layout(shape, draw(st.permutations(range(len(shape))).map(tuple)))
        gap = draw(st.sampled_from([1, 1, 2]))
        found.append(Layout(shape, tuple(stride * gap for stride in compact.stride)))
    return tuple(found)


@settings(max_examples=100, deadline=None)
@given(pairs())
def test_the_common_run_by_counting(pair):
    """As many coordinates as have index 0, 1, 2, ... in both."""
    a, b = pair
    at = [{index: coordinate for coordinate, index in enumerate(each.offsets())} for each in pair]
    run = next((n for n in range(size(a)) if n not in at[0] or at[0][n] != at[1].get(n)), size(a))
    run = max(run, 1)
    assert max_common_vector(a, b) == run
    common = max_common_layout(a, b)
    assert [(a(place), b(place)) for place in common.offsets()] == [(n, n) for n in range(run)]


@settings(max_examples=60, deadline=None)
@given(pairs(), st.integers(0, 3))
def test_a_swizzle_keeps_shorter_runs(pair, base):
    """As long as the swizzle leaves together; in modes of three elements such a run may be no layout."""
    a, _ = pair
    swizzled = ComposedLayout(Swizzle(2, base, 3), 0, a)
    longest = math.gcd(max_common_vector(a, a), 1 << base)
    found = max_common_vector(swizzled, a)
    assert longest % found == 0
    if 3 not in a.shape:
        assert found == longest
    assert [a(place) for place in max_common_layout(swizzled, a).offsets()] == list(range(found))


def test_a_run_that_is_no_layout():
    """Four of twelve elements in columns of three: the fourth begins another column."""
    a = Layout((4, 3), (3, 1))
    assert max_common_vector(a, a) == 12
    assert max_common_vector(ComposedLayout(Swizzle(2, 2, 3), 0, a), a) == 1


def by_rows(bits, rows=4):
    return make_tiled_copy(universal_copy(f16, bits), Layout((rows, 8), (8, 1)), Layout((1, 8)))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([16, 32, 64, 128]), st.integers(1, 80), st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 4])
)
def test_what_is_allowed_is_aligned_and_contiguous(bits, pitch, base, rows):
    """Of every thread every access: its elements follow each other, and begin at a multiple of its size."""
    layout = Layout((8, 64), (pitch, 1))
    copy = by_rows(bits, rows)
    accesses = []
    for thread in range(copy.size):
        part = copy.get_slice(thread).partition_S(layout)
        offsets = part.offsets()
        for rest in range(size(make_layout(part.plain[0, 1], *part.plain.modes[1:]))):
            many = size(part.plain[0, 0])
            accesses.append(offsets[rest * many : (rest + 1) * many])
    part = copy.get_slice(0).partition_S(layout)
    thread_steps = math.gcd(*(copy.get_slice(thread).partition_S(layout).offset for thread in range(copy.size)))
    known = math.gcd(base, 2 * math.gcd(multiple(part.layout), thread_steps))
    faults = access_faults(copy.atom, part.layout, "the source", known)
    fine = all(each == list(range(each[0], each[0] + len(each))) for each in accesses)
    fine &= all(2 * each[0] % (bits // 8) == 0 for each in accesses) and base % (bits // 8) == 0
    assert fine == (not faults)


def faults(copy, layout, align=16):
    return access_faults(copy.atom, copy.get_slice(0).partition_S(layout).layout, "the source", align)


REFUSED = {
    "a transposed tensor": (by_rows(128), Layout((8, 64), (1, 8)), 16, "copy.vector", "take universal_copy(f16, 16)"),
    "a swizzle of four": (
        by_rows(128),
        ComposedLayout(Swizzle(2, 2, 3), 0, Layout((8, 64), (64, 1))),
        16,
        "copy.vector",
        "4 of them follow each other",
    ),
    "eight bytes": (by_rows(128), Layout((8, 64), (64, 1)), 8, "copy.alignment", "take universal_copy(f16, 64)"),
    "asynchronous": (
        make_tiled_copy(cp_async_copy(f16), Layout((4, 8), (8, 1)), Layout((1, 8))),
        Layout((8, 64), (64, 1)),
        4,
        "copy.alignment",
        "take cp_async_copy(f16, 32)",
    ),
    "columns by ldmatrix": (
        make_tiled_copy(ldmatrix_copy(f16), Layout((8, 4), (4, 1)), Layout((2, 4))),
        Layout((16, 16), (1, 16)),
        16,
        "copy.vector",
        "SM75_U32x4_LDSM_N moves 8 elements at once",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_refused(mistake):
    copy, layout, align, rule, words = REFUSED[mistake]
    with pytest.raises(DiagnosticError) as caught:
        raise_all(faults(copy, layout, align))
    (found,) = caught.value.diagnostics
    assert found.rule.id == rule
    assert words in said(found)
