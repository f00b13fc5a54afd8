"""Every general row against LLVM (spelling) and ptxas (legality), on both sides of its gate."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import atomics
from tests.support.row_families import FAMILIES
from tests.support.row_verdicts import (
    acceptance_faults,
    feature_faults,
    old_chip_faults,
    spelling_faults,
    version_faults,
)

ORDINARY = 12
"""Rows of a family that an ordinary run tries; the others wait for an exhaustive one."""
ON_OLD_CHIPS = 6
"""Of these, as each is asked about on every old chip."""
SCOPES = ("cta", "cluster", "gpu", "sys")


def _name(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _everything(module: ModuleType) -> list[Row]:
    return list(module.rows())


def _some(most: int = ORDINARY) -> list[Row]:
    """Rows of every family: all, or as many as an ordinary run tries, spread over the family.

    Those of all families are asked about together: a process of LLVM's or of ptxas costs as much as many rows.
    """
    families = [_everything(module) for module in FAMILIES]
    tried = [found if len(found) <= ORDINARY else random.Random(0).sample(found, ORDINARY) for found in families]
    return [row for rows in tried for row in rows[:most]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("module", FAMILIES, ids=_name)
def test_every_row_of_a_family_against_llvm_and_ptxas(module: ModuleType) -> None:
    rows = _everything(module)
    for faults in (spelling_faults, acceptance_faults, feature_faults, version_faults, old_chip_faults):
        assert faults(rows) == []


def test_llvm_prints_the_spelling_for_lowest_and_newest_target() -> None:
    assert spelling_faults(_some()) == []


def test_ptxas_takes_the_row_on_lowest_and_newest_target() -> None:
    assert acceptance_faults(_some()) == []


def test_ptxas_refuses_the_row_where_its_features_lack() -> None:
    assert feature_faults(_some()) == []


def test_ptxas_refuses_the_row_one_ptx_version_earlier() -> None:
    assert version_faults(_some()) == []


def test_gates_are_those_of_the_ptxas_that_knows_the_older_chips() -> None:
    assert old_chip_faults(_some(ON_OLD_CHIPS)) == []


def test_a_scope_can_need_a_newer_ptx_version_than_the_type() -> None:
    wide = [atomics.atomic("exch", "b128", scope=scope, space=space) for scope in SCOPES for space in atomics.SPACES]
    assert [row.ptx_version for row in wide if ".sys." in row.ptx] == [(8, 4)] * 3
    assert [row.ptx_version for row in wide if ".sys." not in row.ptx] == [(8, 3)] * 9
    assert acceptance_faults(wide) == []
    assert version_faults(wide) == []


@pytest.mark.parametrize("module", FAMILIES, ids=_name)
def test_no_two_rows_are_the_same_instruction(module: ModuleType) -> None:
    seen = [(row.ptx, tuple(operand.name for operand in row.operands), str(row.lowering)) for row in module.rows()]
    assert len(seen) == len(set(seen))
