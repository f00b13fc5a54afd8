"""Blocks that no thread comes to both of, on a machine form that is written by hand: branches inside of branches."""

from __future__ import annotations

import pytest

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.exclusive import exclusions_of
from nvbackend.isel.machine.agreement import Formula
from nvbackend.isel.machine.function import Branch, MachineFunction
from nvbackend.isel.target.target import Target

DEPTH = 1500
"""More than Python lets calls nest."""


def nested(*, scope: Scope, opposite: bool) -> MachineFunction:
    """Two nests of ifs, one after the other: all their conditions are the same but for the outermost of the second."""
    function = MachineFunction("f", Target.parse("sm_90a"), attributes={"threads": 256})
    for nest in ("first", "second"):
        for level in range(DEPTH):
            block = function.block(f"{nest}{level}")
            block.successors = [f"{nest}{level + 1}", f"{nest} end"]
            is_opposite = opposite and nest == "second" and level == 0
            formula = Formula(fact=level, negated=is_opposite, uniform=scope)
            block.branch = Branch(scope, formula=formula)
        function.block(f"{nest}{DEPTH}").successors = [f"{nest} end"]
        function.block(f"{nest} end").successors = ["second0"] if nest == "first" else []
    return function


@pytest.mark.parametrize("scope", [Scope.THREAD, Scope.WARP, Scope.WARPGROUP, Scope.CTA])
def test_one_condition_of_many_keeps_threads_of_its_scope_apart(scope: Scope) -> None:
    found = exclusions_of(nested(scope=scope, opposite=True))
    assert found.scope(f"first{DEPTH}", f"second{DEPTH}") is scope
    assert found.scope(f"first{DEPTH}", "second1") is scope
    assert found.scope(f"first{DEPTH}", "second0") is None
    assert found.scope(f"first{DEPTH}", "second end") is None
    assert found.scope("first end", f"second{DEPTH}") is None


def test_nests_under_the_same_conditions_are_entered_together() -> None:
    found = exclusions_of(nested(scope=Scope.CTA, opposite=False))
    assert found.scope(f"first{DEPTH}", f"second{DEPTH}") is None
