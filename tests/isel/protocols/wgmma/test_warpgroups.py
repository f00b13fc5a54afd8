"""The WGMMA protocol in kernels as they are written: several warpgroups, nested loops, branches, A in registers.

Lines of a program that are wrong end in `# broken`.
"""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend.intrinsics import catalogue
from nvbackend.isel.machine import pseudo
from nvbackend.isel.protocols.wgmma.state import concerns_groups
from tests.rules.programs.wgmma import Scene
from tests.rules.registry import right, wrong


def found(program):
    """The rules that it breaks and the lines, of all that concern wgmma."""
    scene = Scene()
    try:
        program(scene)
        diagnostics = scene.k.finish().diagnostics
    except nvb.DiagnosticError as error:
        diagnostics = error.diagnostics
    return {(one.rule_id, one.location.line) for one in diagnostics if one.rule_id.startswith("wgmma.")}


@pytest.mark.parametrize("program", right("wgmma"), ids=lambda one: one.name)
def test_right_programs_raise_no_alarm(program):
    assert found(program) == set()


@pytest.mark.parametrize("program", wrong("wgmma"), ids=lambda one: one.name)
def test_each_mistake_is_found_at_its_line(program):
    assert found(program) == {(program.rule, line) for line in program.marked}


def test_only_the_instructions_of_warpgroups_are_of_their_protocol():
    for row in catalogue.rows():
        assert concerns_groups(row.semantics) is row.ptx.startswith("wgmma."), row.ptx
    assert not any(map(concerns_groups, pseudo.PSEUDO.values()))
