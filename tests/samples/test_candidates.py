"""What the GEMM's model ranks: every candidate of any shape is built and right, and each order is another one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import f32
from samples.attention.choice import Form as AttentionForm
from samples.attention.choice import candidates, choose
from samples.attention.forward import kernel
from samples.attention.forward import launch as launch_attention
from samples.gemm import choice
from samples.gemm.deep import Deep
from samples.gemm.forms import FORMS, problem_for
from samples.gemm.model import microseconds, resident
from samples.gemm.thin import Thin
from samples.gemm.wide import Wide
from samples.program import Device

SHAPES = st.tuples(st.integers(1, 9000), st.integers(1, 600).map((16).__mul__), st.integers(1, 600).map((16).__mul__))


def ranked(name, shape):
    form = FORMS[name]
    return choice.candidates(*shape, form.operand, form.result, batches=form.batches)


def fits(one, m, n):
    """Columns go along the shorter side: those of a narrow tile only where it is short enough."""
    if one.columns < 48:
        return min(m, n) <= 32 and one.swapped == (m < n)
    return m < n or not one.swapped


@pytest.mark.parametrize("name", FORMS)
@given(shape=SHAPES)
@example(shape=(208, 208, 4096))
@example(shape=(9, 4096, 4096))
@example(shape=(20, 6144, 1040))
@example(shape=(4096, 16, 4096))
@settings(deadline=None, max_examples=40)
def test_the_choice_is_the_least_of_all_that_are_ranked(name, shape):
    """Of every tile in its first order; the usual ones are candidates always, others where they are near the least."""
    form, said, (m, n, depth) = FORMS[name], ranked(name, shape), shape
    assert choice.choose(*shape, form.operand, form.result, batches=form.batches) == next(iter(said))
    assert list(said.values()) == sorted(said.values())
    assert m < n or not any(one.swapped for one in said if not isinstance(one, Thin))
    assert len({one.label for one in said}) == len(said)
    every = choice.wide_ones(form.operand, form.result, batched=bool(form.batches))
    tiles = [one.for_depth(depth) for one in every if fits(one, m, n)]
    wide = {replace(one, group=16) for one in said if isinstance(one, Wide)}
    thin, deep = ({one for one in said if isinstance(one, kind)} for kind in (Thin, Deep))
    shared = [
        one
        for one in choice.deep_ones(form.operand, form.result)
        if not form.batches and fits(one, m, n) and (one.columns < 48 or one.ctas(m, n) <= resident(132, one.split))
    ]
    if thin:
        assert thin == set(choice.thin_ones(m, form.operand))
    if m <= choice.FEW and (thin or any(one.columns < 48 for one in (*tiles, *shared))):
        tiles, shared = ([one for one in some if one.columns < 48] for some in (tiles, shared))
    times = [microseconds(one, m, n, depth, 132, form.batches or 1) for one in (*tiles, *thin, *shared)]
    assert next(iter(said.values())) == min(times)
    usual = {one for one in tiles if (one.consumers, one.columns) in choice.USUAL and not one.swapped}
    assert usual <= wide <= set(tiles)
    assert deep <= set(shared)
    others = (wide - usual) | deep
    assert len(others) <= choice.OTHERS
    assert all(said[one] <= choice.NEAR * min(times) for one in others)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"m": 0}, "m is a positive integer, not 0"),
        ({"n": -16}, "n is a positive integer, not -16"),
        ({"depth": 64.0}, "depth is a positive integer, not 64.0"),
        ({"m": "16"}, "m is a positive integer, not '16'"),
        ({"batches": 0}, "batches is a positive integer, not 0"),
        ({"multiprocessors": 0}, "multiprocessors is a positive integer, not 0"),
        ({"operand": f32}, "these kernels multiply f16, bf16, tf32, e4m3, e5m2, s8, u8, not f32"),
        ({"operand": "f16"}, "not 'f16'"),
    ],
)
def test_what_is_no_shape_is_refused(changed, text):
    for ask in (choice.candidates, choice.choose):
        with pytest.raises(ValueError, match=text):
            ask(**{"m": 300, "n": 64, "depth": 64} | changed)


def test_one_multiprocessor_runs_no_cluster_of_wide_tiles():
    every = choice.candidates(200, 200, 64, multiprocessors=1)
    assert {one.cluster for one in every} == {1}
    assert {one.launch_of(200, 200, 64, 1)[0] for one in every} == {1}


@pytest.mark.parametrize("name", FORMS)
def test_which_tiles_are_left_out(name):
    """Tiles of 192 rows have four stages and no cluster, and operands of 8 bits have no ping-pong consumers.

    Wide tiles of C^T have no cluster, and are stored as results of 16 bits; deep ones as any. Narrow tiles have no
    cluster, and at most 128 rows where they have 16 columns.
    """
    form = FORMS[name]
    tiles = list(choice.wide_ones(form.operand, form.result))
    assert {one.cluster for one in tiles if one.consumers == 3} == {1}
    assert min(one.stages for one in tiles if one.consumers == 3) >= 4
    assert any(one.pingpong for one in tiles) == (form.operand.bits >= 16)
    assert any(one.swapped for one in tiles) == (form.result.bits == 16)
    assert any(one.swapped for one in choice.deep_ones(form.operand, form.result))
    assert {one.cluster for one in tiles if one.swapped or one.columns < 48} == {1}
    narrow = [one for one in (*tiles, *choice.deep_ones(form.operand, form.result)) if one.columns == 16]
    assert {one.consumers for one in narrow} == {1, 2}


def tiles_in_order(one, m):
    """The rows of tiles of the first column in the order of `k.grouped`, by its definition: a band is a cluster's."""
    bands = -(-m // (one.rows * one.cluster))
    group = max(1, one.group // one.cluster)
    columns = 3
    starts = range(0, bands, group)
    return [(row, column) for first in starts for column in range(columns) for row in range(bands)[first:][:group]]


@given(m=st.integers(1, 9000))
@settings(deadline=None, max_examples=60)
def test_each_order_is_another_one_and_none_is_left_out(m):
    for tile in choice.wide_ones():
        kept = [tiles_in_order(one, m) for one in choice.orders(tile, *tile.sides(m, 1))]
        every = [tiles_in_order(replace(tile, group=group), m) for group in choice.GROUPS]
        assert all(kept.count(order) == 1 for order in every)
        assert all(order in every for order in kept)
        assert next(iter(choice.orders(tile, *tile.sides(m, 1)))) == tile


@given(data=st.data(), name=st.sampled_from(sorted(FORMS)), shape=SHAPES)
@settings(deadline=None, max_examples=8)
def test_candidates_are_built_and_verified(data, name, shape):
    one = data.draw(st.sampled_from(list(ranked(name, shape))))
    assert one.kernel.build().diagnostics == ()
    m, n, depth = shape
    multiprocessors = data.draw(st.sampled_from([2, 78, 132]))
    grid, _ = one.launch_of(m, n, depth, multiprocessors)
    assert grid >= 1
    assert grid % (one.cluster if isinstance(one, Wide) else one.split) == 0


@pytest.mark.exhaustive(seconds=50)
@given(shape=SHAPES, name=st.sampled_from(sorted(FORMS)))
@settings(deadline=None, max_examples=4)
def test_all_candidates_of_a_shape_are_built_and_verified(shape, name):
    for one in ranked(name, shape):
        assert one.kernel.build().diagnostics == ()


@pytest.mark.parametrize("group", [1, 2, 4])
def test_other_orders_multiply_in_the_simulator(group):
    """More rows of tiles than go together, and of the last ones fewer."""
    one = Wide(64, 1, 1, 2, group=group).for_depth(16)
    problem = problem_for(one, 64 * 5 - 8, 136, 16)
    compiled = problem.kernel.compile(assemble=False, check=False)
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.parametrize(
    ("depth", "rows", "causal", "form"),
    [
        (256, 4096, False, AttentionForm(block=64, q_stages=1, turns=True, patient=True)),
        (128, 4096, True, AttentionForm()),
        (64, 2048, False, AttentionForm(3, 128, 3, 1, patient=True)),
        (64, 2047, False, AttentionForm(stages=3)),
        (64, 8192, True, AttentionForm(3, 96, 3, 1, turns=True, patient=True)),
        (64, 8191, True, AttentionForm(stages=3, turns=True, polynomial=4)),
    ],
    ids=str,
)
def test_what_attention_chooses_is_the_first_of_its_candidates(depth, rows, causal, form):
    every = candidates(depth, rows, causal=causal)
    assert choose(depth, rows, causal=causal) == every[0] == form
    assert len(every) == len({one.label for one in every}) == (16 if depth == 64 else 8)


@pytest.mark.parametrize("odd", [np.nan, np.inf], ids=str)
@pytest.mark.parametrize("patient", [False, True], ids=["", "patient"])
def test_an_odd_key_of_attention_is_odd_in_every_row_that_sees_it(patient, odd):
    """A power of two by multiplies is a number, also that of NaN: one key in eight would have no weight."""
    one = AttentionForm(stages=3, polynomial=4, patient=patient)
    loaded = nvb.runtime.load(kernel(one, 64, causal=True).compile(assemble=False, check=False), device="simulator")
    random = np.random.default_rng(1)
    q, keys, values = (random.uniform(0.5, 1.0, (1, 140, 64)).astype(np.float16) for _ in range(3))
    keys[0, [1, 9, 17, 130], 5] = odd
    o = np.zeros_like(q)
    launch_attention(loaded, q, keys, values, np.zeros(1, np.int32), o, depth=64)
    assert np.isfinite(o[0, :1]).all()
    assert np.isnan(o[0, 1:]).all()


@pytest.mark.parametrize("number", [1, 5, 8, 40, 64, 100])
def test_each_odd_key_alone_is_seen(number):
    one = AttentionForm(stages=3, polynomial=4)
    loaded = nvb.runtime.load(kernel(one, 64).compile(assemble=False, check=False), device="simulator")
    q, keys, values = (np.ones((1, 128, 64), np.float16) for _ in range(3))
    keys[0, number] = np.nan
    launch_attention(loaded, q, keys, values, np.zeros(1, np.int32), o := np.zeros_like(q), depth=64)
    assert np.isnan(o).all()


ATTENTION = [
    pytest.param(depth, causal, one, marks=() if number % 8 == 3 else pytest.mark.exhaustive(seconds=4))
    for depth in (64, 128, 256)
    for causal in (False, True)
    for number, one in enumerate(candidates(depth, 1, causal=causal))
]


@pytest.mark.parametrize(("depth", "causal", "one"), ATTENTION)
def test_candidates_of_attention_are_built_and_verified(depth, causal, one):
    assert kernel(one, depth, causal=causal).build().diagnostics == ()
