"""The swizzle of a descriptor against that of the copies which fill what it reads."""

from __future__ import annotations

import inspect

import pytest

import nvbackend as nvb
from tests.rules.programs.descriptor_swizzle import Scene
from tests.rules.registry import right, wrong


def found(program):
    """Lines and messages of descriptor.swizzle."""
    scene = Scene()
    try:
        program(scene)
        diagnostics = scene.k.finish().diagnostics
    except nvb.DiagnosticError as error:
        diagnostics = error.diagnostics
    return [one for one in diagnostics if one.rule_id == "descriptor.swizzle"]


@pytest.mark.parametrize("program", right("descriptor_swizzle"), ids=lambda one: one.name)
def test_what_may_be_right_raises_no_alarm(program):
    assert found(program) == []


@pytest.mark.parametrize("program", wrong("descriptor_swizzle"), ids=lambda one: one.name)
def test_another_swizzle_is_found_at_its_line(program):
    diagnostics = found(program)
    assert [_line(one.location, program) for one in diagnostics] == sorted(program.marked)
    assert all("has the swizzle of 64 bytes" in one.message for one in diagnostics)


def _line(location, program):
    """The line in the program: of what it calls to send the tile, the line of that call."""
    sent = [number for number, line in enumerate(*_source(program)) if "s.send(" in line]
    return sent[0] if location.function == "send" else location.line


def _source(program):
    lines, first = inspect.getsourcelines(program.function)
    return lines, first
