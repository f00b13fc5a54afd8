"""Each mistake is found by its rule wherever it can be seen; a kernel without one draws no diagnostic."""

from __future__ import annotations

import itertools

import pytest

from tests.mutations.mutation import Mutation
from tests.mutations.table import KERNELS, document, name_of, outcome
from tests.rules.registry import mutations
from tests.support.golden import Golden
from tests.support.process import ROOT

MUTATIONS = mutations()
CELLS = list(itertools.product(MUTATIONS, KERNELS))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_right_kernel_draws_no_diagnostic(kernel: str) -> None:
    found = outcome(kernel, Mutation)
    assert not found.applies
    assert list(map(str, found.diagnostics)) == []


@pytest.mark.parametrize(("mutation", "kernel"), CELLS, ids=[f"{one.__name__}-{kernel}" for one, kernel in CELLS])
def test_a_mistake_is_found_by_its_rule(mutation: type[Mutation], kernel: str) -> None:
    found = outcome(kernel, mutation)
    if not found.applies or kernel in mutation.unseen:
        assert found.rules == ()
    elif kernel not in mutation.pending:
        assert found.rules, "nothing was said"
        assert set(found.rules) <= set(mutation.found_by), list(map(str, found.diagnostics))


def test_every_mistake_is_made_somewhere() -> None:
    assert len(MUTATIONS) >= 40
    assert len({name_of(one) for one in MUTATIONS}) == len(MUTATIONS)
    assert [name_of(one) for one in MUTATIONS if not any(outcome(kernel, one).applies for kernel in KERNELS)] == []


class NoMistake(Mutation):
    """make no mistake"""

    found_by = ("wgmma.missing-fence",)


class HarmlessMistake(NoMistake):
    """load with one more comment"""

    def tma_load(self, *operands, **options):
        self.change()
        self.right.tma.load(*operands, **options)


def test_the_table_has_no_mistake_that_is_made_nowhere() -> None:
    with pytest.raises(ValueError, match="'make no mistake' is made in no kernel"):
        document([NoMistake])


def test_the_table_has_no_empty_cell() -> None:
    with pytest.raises(ValueError, match=r"nothing is said of .* in hopper_gemm, blackwell_gemm, .*tensor_memory"):
        document([HarmlessMistake])


def test_the_table_is_up_to_date(request: pytest.FixtureRequest) -> None:
    Golden(ROOT / "docs", request.config.getoption("--update-golden")).check("mutations.md", document(MUTATIONS))
