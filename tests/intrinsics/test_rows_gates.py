"""Every general row against LLVM (spelling) and ptxas (legality), on both sides of its gate."""

from __future__ import annotations

from types import ModuleType

import pytest

from nvbackend.intrinsics import cluster, matrix_move, mbarrier, register_budget, special_registers, sync, tma, warp
from nvbackend.intrinsics.row import Row
from tests.support.row_verdicts import acceptance_faults, feature_faults, spelling_faults, version_faults

FAMILIES = (cluster, matrix_move, mbarrier, register_budget, special_registers, sync, tma, warp)


@pytest.fixture(params=FAMILIES, ids=lambda module: module.__name__.rpartition(".")[2])
def rows(request: pytest.FixtureRequest) -> list[Row]:
    module: ModuleType = request.param
    return list(module.rows())


def test_llvm_prints_the_spelling_for_lowest_and_newest_target(rows: list[Row]) -> None:
    assert spelling_faults(rows) == []


def test_ptxas_takes_the_row_on_lowest_and_newest_target(rows: list[Row]) -> None:
    assert acceptance_faults(rows) == []


def test_ptxas_refuses_the_row_where_its_features_lack(rows: list[Row]) -> None:
    assert feature_faults(rows) == []


def test_ptxas_refuses_the_row_one_ptx_version_earlier(rows: list[Row]) -> None:
    assert version_faults(rows) == []


@pytest.mark.parametrize("module", FAMILIES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_no_two_rows_are_the_same_instruction(module: ModuleType) -> None:
    seen = [(row.ptx, tuple(operand.name for operand in row.operands)) for row in module.rows()]
    assert len(seen) == len(set(seen))
