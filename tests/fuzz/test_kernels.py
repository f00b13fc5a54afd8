"""Random whole kernels over all targets: what is built is assembled by ptxas, what is not is refused by a Diagnostic.

Nothing else happens: no abort, no kernel that takes 10 s, no exception of another kind, and the same seed writes the
same PTX. Each failure names its seed and the command that shows it again. The ordinary run takes BLOCKS blocks of
seeds, the exhaustive one as many as make 100,000 kernels; all that are built are assembled in both.
"""

from __future__ import annotations

import os

import pytest

from nvbackend.isel.target.target import target_names
from tests.support.random_kernels.program import KINDS, SAME_TARGET, write
from tests.support.random_kernels.worker import Campaign, refused_by_ptxas, run

BLOCK = 512
BLOCKS = 4
LONG_BLOCK = 1024
LONG_BLOCKS = 98
FIRST_LONG = 1 << 20
"""Where the seeds of the exhaustive run begin: not one of them is tried in the ordinary run."""
SAME_AGAIN = 2 * SAME_TARGET


def assert_campaign(campaign: Campaign, kernels: int) -> None:
    """Nothing failed, and enough was built and refused for that to mean something."""
    assert campaign.failures == {}, campaign.report()
    assert sum(campaign.counts.values()) == kernels
    assert campaign.count("built") > kernels // 2
    assert campaign.count("refused") > kernels // 20
    assert 0 < campaign.files < kernels // 8, "a file for each kernel takes ten times as long"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_two_thousand_kernels(block: int) -> None:
    assert_campaign(run(block * BLOCK, (block + 1) * BLOCK), BLOCK)


@pytest.mark.exhaustive(seconds=35)
@pytest.mark.parametrize("block", range(LONG_BLOCKS))
def test_a_hundred_thousand_kernels(block: int) -> None:
    first = FIRST_LONG + block * LONG_BLOCK
    assert_campaign(run(first, first + LONG_BLOCK), LONG_BLOCK)


def test_ptxas_names_the_kernel_that_is_wrong_among_others() -> None:
    built = [one for one in map(write, range(12)) if one.verdict == "built"][:5]
    assert len(built) == 5
    assert refused_by_ptxas(built) == ({}, 1)
    wrong = built[3]
    wrong.ptx = wrong.ptx.replace("ret;", "mov.u32 %nothing, 1;\n\tret;")
    refused, asked = refused_by_ptxas(built)
    assert refused.keys() == {wrong.seed}
    assert "nothing" in refused[wrong.seed]
    assert asked < 2 * len(built)


def test_the_counts_are_those_that_are_promised() -> None:
    assert BLOCKS * BLOCK >= 2000
    assert LONG_BLOCKS * LONG_BLOCK >= 100_000
    assert SAME_TARGET * len(target_names()) <= BLOCKS * BLOCK  # every target, and each kind on it


def test_the_same_seed_writes_the_same_kernel() -> None:
    """In processes that hash strings otherwise: PTX and what is refused, byte for byte."""
    first, second = (
        run(0, SAME_AGAIN, assembled=False, environment={**os.environ, "PYTHONHASHSEED": seed}) for seed in ("1", "2")
    )
    assert first.digests == second.digests
    assert len(first.digests) == SAME_AGAIN
    assert first.count("built") > SAME_AGAIN // 2
    assert {kind for kind, _ in first.counts} <= set(KINDS)
