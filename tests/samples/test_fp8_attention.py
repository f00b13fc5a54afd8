"""Attention in e4m3: against NumPy that rounds weights as the kernel does, key by key, and what a launch refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nvbackend as nvb
from samples.attention import fp8
from samples.attention.choice import Form
from samples.attention.fp8 import RAISED, candidates, kernel, launch
from samples.flash_attention import by_numpy

E4M3 = ml_dtypes.float8_e4m3fn
SCALES = (0.5, 1.5, 2.0)
SLOW = pytest.mark.exhaustive(seconds=6)


def random_arrays(heads, share, rows, depth):
    """Q, K and V in e4m3, V not transposed."""
    random = np.random.default_rng(rows + depth)
    counts = heads, *[heads // share] * 2
    return [random.standard_normal((count, rows, depth)).astype(E4M3) for count in counts]


def results(form, arrays, *, depth, causal=False, share=1):
    """What the kernel gives in the simulator; the counter must be 0 again."""
    loaded = nvb.runtime.load(
        kernel(form, depth, causal=causal, share=share).compile(assemble=False, check=False), device="simulator"
    )
    q, keys, values = (one.view(np.uint8) for one in arrays)
    o, counter = np.full(q.shape, np.nan, np.float16), np.zeros(1, np.int32)
    transposed = np.ascontiguousarray(values.transpose(0, 2, 1))
    launch(loaded, q, keys, transposed, counter, o, form=form, scales=SCALES, depth=depth, share=share)
    assert counter[0] == 0
    return o.astype(np.float64)


def emulated(form, q, keys, values, *, causal):
    """One head: blocks from the last one on, and weights in e4m3 relative to the greatest score until then."""
    rows, depth = q.shape
    powers = (q @ keys.T * (SCALES[0] * SCALES[1] * np.log2(np.e) / np.sqrt(depth))).astype(np.float32)
    if causal:
        powers[~np.tri(rows, dtype=bool)] = -np.inf
    most, total, acc = np.full((rows, 1), -1e30), np.zeros((rows, 1)), np.zeros_like(q)
    for first in range((rows - 1) // form.block * form.block, -1, -form.block):
        block = powers[:, first : first + form.block]
        above = np.maximum(most, block.max(1, keepdims=True))
        weights = np.exp2(block - above + RAISED)
        factor, most = np.exp2(most - above), above
        total = total * factor + weights.sum(1, keepdims=True)
        acc = acc * factor + weights.astype(E4M3).astype(np.float64) @ values[first : first + form.block]
    return acc / total * SCALES[2]


CASES = [
    (64, Form(stages=4), True, 2, 80),
    (64, Form(3, stages=4, q_stages=1, polynomial=4), False, 1, 208),
    (128, Form(stages=3, turns=True), True, 1, 144),
    (128, Form(stages=3), False, 1, 16),
    (256, Form(q_stages=1), True, 1, 48),
    pytest.param(128, Form(stages=3), False, 2, 272, marks=SLOW),
    pytest.param(64, Form(2, 64, stages=4), True, 1, 208, marks=SLOW),
    pytest.param(256, Form(2, 64, q_stages=1, turns=True), True, 1, 208, marks=SLOW),
    pytest.param(256, Form(q_stages=1), False, 1, 208, marks=SLOW),
]


@pytest.mark.parametrize(("depth", "form", "causal", "share", "rows"), CASES, ids=str)
def test_weights_are_rounded_as_numpy_rounds_them(depth, form, causal, share, rows):
    """Of exact weights e4m3 keeps 4 bits, so each is off by up to 2^-4 of it; of O it is 0.03 for random values.

    Some rows have a weight so near to the middle between two numbers that it is rounded to the other one.
    """
    arrays = random_arrays(share, share, rows, depth)
    o = results(form, arrays, depth=depth, causal=causal, share=share)
    q, keys, values = (one.astype(np.float64) for one in arrays)
    same = np.stack([emulated(form, q[head], keys[0], values[0], causal=causal) for head in range(share)])
    exact = by_numpy(q * SCALES[0], keys * SCALES[1], values * SCALES[2], causal=causal)
    assert np.quantile(np.abs(o - same).max(2), 0.75) < 2**-8 * np.abs(exact).max()
    assert np.abs(o - exact).max() < 2**-4 * np.abs(exact).max()


@pytest.mark.parametrize("number", [0, 1, 2, 4, 9, 14, 16, 43])
def test_a_key_is_seen_by_the_queries_from_its_own_on(number):
    """The places of scores are not the numbers of keys, and the mask must know them."""
    arrays = random_arrays(1, 1, 48, 64)
    arrays[1][0, number] = np.nan
    o = results(Form(stages=2), arrays, depth=64, causal=True)
    assert np.isfinite(o[0, :number]).all()
    assert np.isnan(o[0, number:]).all()


@pytest.mark.parametrize("causal", [False, True], ids=["", "causal"])
def test_an_odd_head_leaves_the_one_before_it_as_it_is(causal):
    """A block of keys goes on with the next head's."""
    arrays = random_arrays(2, 1, 48, 64)
    for one in arrays:
        one[1] = np.nan
    o = results(Form(stages=2), arrays, depth=64, causal=causal)
    exact = by_numpy(*(one[:1].astype(np.float64) * by for one, by in zip(arrays, SCALES, strict=True)), causal=causal)
    assert np.isnan(o[1]).all()
    assert np.abs(o[:1] - exact).max() < 2**-4 * np.abs(exact).max()


@pytest.mark.parametrize(
    ("depth", "causal", "one"),
    [
        pytest.param(depth, causal, one, marks=() if number == 1 else pytest.mark.exhaustive(seconds=4))
        for depth in (64, 128, 256)
        for causal in (False, True)
        for number, one in enumerate(candidates(depth, causal=causal))
    ],
)
def test_candidates_are_built_and_verified(depth, causal, one):
    assert kernel(one, depth, causal=causal).build().diagnostics == ()


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Form(patient=True), "take a form that is not patient"),
        (Form(block=96), "a block has 64 keys or a multiple of 128, not 96"),
        (Form(1), "64 queries of a causal tile are not whole blocks of 128 keys"),
    ],
    ids=str,
)
def test_forms_without_a_kernel(form, text):
    with pytest.raises(ValueError, match=text):
        kernel(form, causal=True)


def test_depths_without_a_kernel():
    with pytest.raises(ValueError, match="heads have 64, 128, 256 columns, not 96"):
        candidates(96, causal=False)


RIGHT: dict[str, tuple[int, ...]] = {"q": (4, 80, 64), "keys": (2, 80, 64), "values": (2, 64, 80), "o": (4, 80, 64)}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"q": (4, 72, 64)}, r"of a multiple of 2 heads and of 16 rows, not \(4, 72, 64\)"),
        ({"q": (3, 80, 64)}, "Q is heads x rows x 64"),
        ({"keys": (2, 96, 64)}, r"K is \(2, 80, 64\)"),
        ({"values": (2, 80, 64)}, r"V, transposed, is \(2, 64, 80\), as Q is \(4, 80, 64\), not \(2, 80, 64\)"),
        ({"o": (2, 80, 64)}, "O is "),
    ],
    ids=str,
)
def test_other_shapes_are_refused(wrong, text):
    q, keys, values, o = (np.zeros(shape, np.uint8) for shape in (RIGHT | wrong).values())
    loaded: Any = SimpleNamespace(device=SimpleNamespace(limits=SimpleNamespace(multiprocessors=1)))
    with pytest.raises(ValueError, match=text):
        launch(loaded, q, keys, values, None, o, form=Form(), depth=64, share=2)


@pytest.mark.parametrize("scales", [(1.0, 0.0, 1.0), (-1.0, 1.0, 1.0), (1.0, 1.0, np.nan)], ids=str)
def test_scales_are_positive(scales):
    loaded: Any = SimpleNamespace(device=SimpleNamespace(limits=SimpleNamespace(multiprocessors=1)))
    arrays = [np.zeros(shape, np.uint8) for shape in RIGHT.values()]
    with pytest.raises(ValueError, match="scales are greater than 0"):
        launch(loaded, *arrays[:3], None, arrays[3], form=Form(), scales=scales, depth=64, share=2)


@pytest.mark.parametrize(
    ("scales", "text"),
    [
        ((1e-30, 1e-30, 1.0), "from 2.-100 to 2.100, not"),
        ((1.0, 1.0, np.inf), "from 2.-100 to 2.100, not"),
        ((1.0, 1.0, 1e-46), "from 2.-100 to 2.100, not"),
        ((1.0, 1.0), r"three numbers, of Q, K and V, not \(1.0, 1.0\)"),
        (2.0, "three numbers, of Q, K and V, not 2.0"),
    ],
    ids=str,
)
def test_scales_that_f32_has_no_factors_for(scales, text):
    """With a factor of 0 the scores that are masked would be NaN."""
    arrays = [np.zeros(shape, np.uint8) for shape in RIGHT.values()]
    with pytest.raises(ValueError, match=text):
        fp8.arguments(1, *arrays[:3], None, arrays[3], form=Form(), scales=scales, depth=64, share=2)


def test_keys_with_gaps_are_refused():
    """The order of their places is made of their memory."""
    loaded: Any = SimpleNamespace(device=SimpleNamespace(limits=SimpleNamespace(multiprocessors=1)))
    q, _, values, o = (np.zeros(shape, np.uint8) for shape in RIGHT.values())
    with pytest.raises(ValueError, match="without gaps"):
        launch(loaded, q, np.zeros((2, 160, 64), np.uint8)[:, ::2], values, None, o, form=Form(), depth=64, share=2)
