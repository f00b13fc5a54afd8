"""Weights of 4 bits: every kernel that can be chosen multiplies, and a choice fits the chip."""

from __future__ import annotations

import itertools

import pytest

from samples.program import Device
from samples.w4a16.__main__ import problem_for
from samples.w4a16.choice import COLUMNS, candidates, choose, clusters_of, streams_of
from samples.w4a16.weights import GROUP, UNIT

pytestmark = pytest.mark.sampled(4)

EVERY = list(itertools.chain.from_iterable(map(candidates, COLUMNS)))


@pytest.mark.parametrize("one", EVERY, ids=str)
def test_every_choice_multiplies_in_the_simulator(one):
    """A row of X less than a tile has, and steps that the CTAs of a cluster cannot share equally."""
    problem = problem_for(one, one.columns - 1, UNIT, 3 * GROUP)
    compiled = problem.kernel.compile(assemble=False, check=False)
    assert compiled.diagnostics == ()
    assert problem.error(compiled, Device("a test")) < problem.tolerance


@pytest.mark.parametrize(("columns", "consumers"), [(8, 1), (32, 2), (64, 1), (128, 2)])
def test_shares_begin_and_end_within_tiles(columns, consumers):
    """Two CTAs have three tiles or six, of five steps; the last tile of X has rows of the one before, too."""
    one = streams_of(columns, consumers)
    problem = problem_for(one, columns + 5, 384 if consumers == 2 else 192 + 64, 5 * GROUP, 2)
    flags = problem.inputs[-1]
    compiled = problem.kernel.compile(assemble=False)
    assert problem.error(compiled, Device("a test")) < problem.tolerance
    assert not flags.any()


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("m", [1, 100])
def test_tiles_that_no_cluster_shares_multiply_on_a_gpu(m):
    """So many rows of W that each CTA sums along all of K."""
    many = 14336
    one = clusters_of(8 if m == 1 else 128, 1)
    problem = problem_for(one, m, many, 3 * GROUP)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


def test_only_ctas_that_share_the_depth_send_sums():
    """compute-sanitizer stops a store to shared memory of the cluster where the cluster is one CTA."""
    sends = [split for split in (1, 2) if "st.async" in clusters_of(64, split).kernel.compile(assemble=False).ptx]
    assert sends == [2]


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("one", [one for one in EVERY if one.columns in (8, 64)], ids=str)
def test_every_form_multiplies_on_a_gpu(one):
    problem = problem_for(one, one.columns - 1, 5 * UNIT, 9 * GROUP)
    assert problem.error(problem.kernel.compile(), Device(None)) < problem.tolerance


@pytest.mark.parametrize(
    ("shape", "fastest"),
    [
        ((1, 4096, 4096), clusters_of(8, 2, 1, 1)),
        ((64, 4096, 14336), clusters_of(64, 2, 1, 1)),
        ((128, 4096, 4096), clusters_of(128, 2, 1, 1)),
        ((16, 2048, 8192), clusters_of(16, 4, 1, 2)),
        ((64, 8192, 8192), clusters_of(64, 2)),
        ((96, 8192, 8192), clusters_of(96, 2)),
        ((128, 5120, 5120), clusters_of(128, 2)),
        ((128, 14336, 4096), clusters_of(128, 1)),
        ((128, 2048, 8192), clusters_of(64, 2, 1, 1)),
        ((16, 4096, 14336), clusters_of(16, 2, 1, 1)),
        ((200, 4096, 4096), clusters_of(128, 2)),
        ((1, 28672, 8192), streams_of(8, 1, 2)),
        ((16, 28672, 8192), streams_of(16, 1, 2)),
        ((64, 28672, 8192), streams_of(64)),
        ((96, 28672, 8192), streams_of(96)),
        ((128, 28672, 8192), streams_of(128)),
        ((16, 11008, 4096), streams_of(16, 1, 2)),
        ((96, 11008, 4096), streams_of(96)),
        ((1, 13824, 5120), clusters_of(8, 1, 1, 2)),
        ((96, 13824, 5120), clusters_of(96, 1)),
    ],
    ids=str,
)
def test_the_choice_is_what_was_fastest_on_an_h200(shape, fastest):
    assert choose(*shape) == fastest


@pytest.mark.parametrize(
    ("m", "columns"), [(1, [8]), (9, [16]), (32, [32]), (40, [64, 32]), (96, [96, 64]), (1000, [128])]
)
def test_a_tile_has_all_rows_of_x_or_half_of_many(m, columns):
    assert list(dict.fromkeys(one.columns for one in candidates(m))) == columns


@pytest.mark.parametrize(("m", "split"), [(40, 1), (90, 2)])
def test_the_last_tile_ends_with_x(m, split):
    """So it has rows of the tile before, too: TMA would take long for rows outside."""
    problem = problem_for(clusters_of(64 if m > 64 else 32, split), m, UNIT, 3 * GROUP)
    compiled = problem.kernel.compile(assemble=False, check=False)
    assert problem.error(compiled, Device("a test")) < problem.tolerance


def test_clusters_that_do_not_run_at_once_take_another_wave():
    """Of clusters of four 30 run at once, not 33: 32 tiles of 4096 rows of W are two waves of them."""
    four, two = clusters_of(8, 4), clusters_of(8, 2)
    assert four.microseconds(1, 30 * UNIT, 4096, 132) < two.microseconds(1, 30 * UNIT, 4096, 132)
    assert four.microseconds(1, 32 * UNIT, 4096, 132) > two.microseconds(1, 32 * UNIT, 4096, 132)
