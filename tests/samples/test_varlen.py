"""Attention over sequences of various lengths: each against NumPy, whatever its neighbours hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from samples.attention.choice import Form, candidates
from samples.attention.varlen import Sequences, kernel, launch
from samples.flash_attention import by_numpy

NARROW = Form(stages=3)
WIDE = Form(3, 96, stages=3, q_stages=1, patient=True)
POLYNOMIAL = Form(stages=3, turns=True, polynomial=4)
BROAD = Form(block=64, q_stages=1, turns=True, patient=True)
SLOW = pytest.mark.exhaustive(seconds=8)


def starts_of(lengths):
    return np.cumsum([0, *lengths])


def arrays_of(sequences, heads, share, depth):
    random = np.random.default_rng(sequences.starts[-1])
    counts = (heads, sequences.starts), *[(heads // share, sequences.starts_of_keys)] * 2
    return [random.standard_normal((count, of[-1], depth)).astype(np.float16) for count, of in counts]


def results(form, depth, sequences, arrays, *, causal=False, share=1):
    """What the kernel gives in the simulator; the counter must be 0 again."""
    compiled = kernel(form, depth, causal=causal, share=share).compile(assemble=False, check=False)
    loaded = nvb.runtime.load(compiled, device="simulator")
    o, counter = np.full_like(arrays[0], np.nan), np.zeros(1, np.int32)
    places = sequences.places(form, causal=causal)
    launch(loaded, *arrays, places, counter, o, sequences=sequences, form=form, depth=depth, share=share)
    assert counter[0] == 0
    return o


def largest_error(o, sequences, arrays, *, causal, left_out=None):
    ends = (sequences.starts, sequences.starts_of_keys, sequences.starts_of_keys, sequences.starts)
    parts = zip(*(np.split(one, of[1:-1], 1) for one, of in zip((*arrays, o), ends, strict=True)), strict=True)
    errors = [
        np.abs(part[3] - by_numpy(*(one.astype(np.float64) for one in part[:3]), causal=causal)).max(initial=0)
        for number, part in enumerate(parts)
        if number != left_out
    ]
    return max(errors)


CASES = [
    (64, NARROW, False, 1, [130, 0, 1, 60], None),
    (64, POLYNOMIAL, True, 2, [0, 130, 1, 60], None),
    (64, POLYNOMIAL, True, 1, [70, 1, 3], [7, 100, 0]),
    (64, WIDE, True, 1, [5, 1, 193], [5, 100, 193]),
    (128, Form(), True, 1, [3, 130], None),
    (256, BROAD, True, 1, [66, 10], [130, 7]),
    pytest.param(64, POLYNOMIAL, True, 1, [130, 0, 1, 60, 3], [7, 9, 200, 128, 0], marks=SLOW),
    pytest.param(64, NARROW, False, 1, [130, 0, 1, 60, 3], [7, 9, 200, 128, 0], marks=SLOW),
    pytest.param(64, WIDE, False, 2, [300, 0, 1, 192], None, marks=SLOW),
    pytest.param(128, Form(), False, 1, [3, 130, 257], None, marks=SLOW),
    pytest.param(128, Form(turns=True, patient=True), True, 2, [129, 128, 127], [256, 1, 300], marks=SLOW),
    pytest.param(128, Form(), True, 1, [5, 130], [300, 20], marks=SLOW),
    pytest.param(256, BROAD, False, 1, [66, 129], [130, 70], marks=SLOW),
    pytest.param(256, BROAD, True, 1, [66, 129], [130, 70], marks=SLOW),
    pytest.param(256, BROAD, True, 1, [1, 128, 64, 200], None, marks=SLOW),
    pytest.param(256, BROAD, True, 1, [200, 10, 128], [63, 0, 257], marks=SLOW),
]


@pytest.mark.parametrize(("depth", "form", "causal", "share", "lengths", "keys"), CASES, ids=str)
def test_each_sequence_is_numpys(depth, form, causal, share, lengths, keys):
    sequences = Sequences.of(starts_of(lengths), None if keys is None else starts_of(keys))
    arrays = arrays_of(sequences, share, share, depth)
    o = results(form, depth, sequences, arrays, causal=causal, share=share)
    assert largest_error(o, sequences, arrays, causal=causal) < 2e-3


@pytest.mark.parametrize("odd", [np.nan, np.inf], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["", "causal"])
def test_an_odd_sequence_leaves_its_neighbours_as_they_are(causal, odd):
    """TMA reads its rows beside theirs, and a weight of zero times infinity is NaN."""
    sequences = Sequences.of(starts_of([70, 40, 30]))
    arrays = arrays_of(sequences, 1, 1, 64)
    for one in arrays:
        one[:, 70:110] = odd
    o = results(NARROW, 64, sequences, arrays, causal=causal)
    assert np.isnan(o[:, 70:110]).all()
    assert largest_error(o, sequences, arrays, causal=causal, left_out=1) < 2e-3


@pytest.mark.parametrize(
    ("depth", "causal", "one"),
    [
        pytest.param(depth, causal, one, marks=() if number == 5 else pytest.mark.exhaustive(seconds=4))
        for depth in (64, 128, 256)
        for causal in (False, True)
        for number, one in enumerate(candidates(depth, 1, causal=causal))
    ],
)
def test_candidates_are_built_and_verified(depth, causal, one):
    assert kernel(one, depth, causal=causal).build().diagnostics == ()


def test_the_last_tiles_of_the_list_have_the_most_keys():
    """First query, end of the queries, first key and end of the keys of each."""
    sequences = Sequences.of([0, 130, 130, 140], [0, 400, 410, 1000])
    assert sequences.places(Form(), causal=False).tolist() == [
        [0, 130, 0, 400],
        [128, 130, 0, 400],
        [130, 140, 410, 1000],
    ]
    causal = sequences.places(Form(), causal=True)
    assert causal.tolist() == [[0, 130, 0, 400], [128, 130, 0, 400], [130, 140, 410, 1000]]
    assert causal.dtype == np.int32 and causal.flags.c_contiguous


@pytest.mark.parametrize(
    ("starts", "keys", "text"),
    [
        ([0, 5, 4], None, "starts must not fall: 4 comes after 5, at 2"),
        ([1, 5], None, "starts begin with 0, not with 1"),
        (
            [0],
            None,
            r"starts are integers, one for each sequence and where the last one ends, not int64 of shape \(1,\)",
        ),
        ([0.0, 5.0], None, "not float64 of shape"),
        ([[0, 5]], None, r"not int64 of shape \(1, 2\)"),
        ([0, 5], [0, 6, 2], "starts_of_keys must not fall: 2 comes after 6, at 2"),
        ([0, 5], [0, 6, 7], "there are 1 sequences of queries and 2 of keys"),
    ],
)
def test_what_are_no_starts(starts, keys, text):
    with pytest.raises(ValueError, match=text):
        Sequences.of(starts, keys)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"starts": [0, 10, 141]}, "the sequences have 141 rows of Q, not 140"),
        ({"keys": [0, 10, 141]}, r"K is \(1, 141, 64\), as Q is \(1, 140, 64\), not \(1, 140, 64\)"),
        ({"starts": [0, 140], "keys": [0, 140]}, r"these sequences have 2 tiles, the list is for others: \(3, 4\)"),
        ({"q": (1, 140, 32)}, "Q is heads x rows x 64"),
    ],
)
def test_arrays_of_other_sequences_are_refused(changed, text):
    right = [0, 10, 140]
    sequences = Sequences.of(changed.get("starts", right), changed.get("keys", right))
    q, o = (np.zeros(changed.get("q", (1, 140, 64)), np.float16) for _ in range(2))
    keys, values = (np.zeros((1, 140, 64), np.float16) for _ in range(2))
    places, counter = Sequences.of(right).places(NARROW, causal=False), np.zeros(1, np.int32)
    loaded: Any = SimpleNamespace(device=SimpleNamespace(limits=SimpleNamespace(multiprocessors=1)))
    with pytest.raises(ValueError, match=text):
        launch(loaded, q, keys, values, places, counter, o, sequences=sequences, form=NARROW, depth=64)


@pytest.mark.parametrize(
    ("starts", "keys", "text"),
    [([0, 0], [0, 5], "no sequence has a query"), ([0, 5], [0, 0], "K and V have no rows")],
)
def test_nothing_to_do_is_refused(starts, keys, text):
    sequences, loaded = (
        Sequences.of(starts, keys),
        SimpleNamespace(device=SimpleNamespace(limits=SimpleNamespace(multiprocessors=1))),
    )
    arrays = arrays_of(sequences, 1, 1, 64)
    places = sequences.places(NARROW, causal=False)
    with pytest.raises(ValueError, match=text):
        launch(loaded, *arrays, places, np.zeros(1, np.int32), arrays[0], sequences=sequences, form=NARROW, depth=64)
