"""Each mistake is found by its rule wherever it can be seen; a kernel without one draws no diagnostic.

Each cell of docs/mutations.md is compared by its own test, so that no kernel is built twice.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.mutations.mutation import Mutation, Verdict, may_apply, verdict
from tests.mutations.table import ABSENT, KERNELS, cell, document, name_of, noted, outcome
from tests.rules.registry import mutations
from tests.support.golden import Golden
from tests.support.process import ROOT

MUTATIONS = mutations()
NOTED = noted()
ONE_OF = 5
"""Of the cells of a mistake that say something one of so many is in the ordinary run, and of the empty ones."""


def _cells() -> list[Any]:
    """Every cell. The kernel that a mistake is tried in first goes on from mistake to mistake."""
    groups: dict[tuple[int, bool], list[str]] = {}
    for number, one in enumerate(MUTATIONS):
        for kernel in KERNELS:
            groups.setdefault((number, NOTED.get((name_of(one), kernel)) == ABSENT), []).append(kernel)
    ordinary = {
        (number, kernel)
        for (number, _), kernels in groups.items()
        for place, kernel in enumerate(kernels)
        if (place + number) % min(ONE_OF, len(kernels)) == 0
    }
    return [
        pytest.param(
            one,
            kernel,
            marks=() if (number, kernel) in ordinary else pytest.mark.exhaustive(seconds=1),
            id=f"{one.__name__}-{kernel}",
        )
        for number, one in enumerate(MUTATIONS)
        for kernel in KERNELS
    ]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_right_kernel_draws_no_diagnostic(kernel: str) -> None:
    found = verdict(KERNELS[kernel], Mutation)
    assert not found.applies
    assert list(map(str, found.diagnostics)) == []


@pytest.mark.parametrize(("mutation", "kernel"), _cells())
def test_a_mistake_is_found_by_its_rule(mutation: type[Mutation], kernel: str, request: pytest.FixtureRequest) -> None:
    found = outcome(kernel, mutation)
    if not found.applies or kernel in mutation.unseen:
        assert found.rules == ()
    elif kernel not in mutation.pending:
        assert found.rules, "nothing was said"
        assert set(found.rules) <= set(mutation.found_by), list(map(str, found.diagnostics))
    if not request.config.getoption("--update-golden"):
        noted_cell = NOTED.get((name_of(mutation), kernel))
        assert noted_cell == cell(kernel, mutation), "pytest tests/mutations --update-golden"


@pytest.mark.exhaustive(seconds=60)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_without_what_is_changed_stays_as_it_is(kernel: str) -> None:
    absent = [one for one in MUTATIONS if not may_apply(KERNELS[kernel], one)]
    assert absent
    for mutation in absent:
        assert verdict(KERNELS[kernel], mutation) == Verdict(applies=False, diagnostics=()), name_of(mutation)


def test_every_mistake_is_made_somewhere() -> None:
    assert len(MUTATIONS) >= 40
    assert len({name_of(one) for one in MUTATIONS}) == len(MUTATIONS)
    cells = {name_of(one): {NOTED.get((name_of(one), kernel)) for kernel in KERNELS} for one in MUTATIONS}
    assert [name for name, each in cells.items() if each == {ABSENT}] == []


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
    with pytest.raises(
        ValueError, match=r"nothing is said of .* in hopper_gemm, dynamic_gemm, blackwell_gemm, .*tensor_memory"
    ):
        document([HarmlessMistake])


def test_the_table_is_up_to_date(request: pytest.FixtureRequest) -> None:
    update = request.config.getoption("--update-golden")
    text = document(MUTATIONS) if update else document(MUTATIONS, lambda kernel, one: NOTED[name_of(one), kernel])
    Golden(ROOT / "docs", update).check("mutations.md", text)
