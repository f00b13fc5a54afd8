"""The swizzle of a descriptor against that of the copies which fill what it reads."""

from __future__ import annotations

import inspect

import pytest

import nvbackend as nvb
from nvbackend.intrinsics.row.semantics import Semantics
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.shared.descriptor_swizzle import check_swizzles
from nvbackend.isel.select.wgmma.select import row_of
from nvbackend.isel.target.target import Target
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


@pytest.mark.parametrize("words", [{}, {"b_desc": 0}, {"a_desc": 0}])
@pytest.mark.parametrize("is_multiplied", [False, True])
def test_only_a_descriptor_that_is_known_says_how_it_is_read(is_multiplied, words):
    """A place may be known where the bits of the descriptor are not, and a word may be no descriptor."""
    tile = MemoryObject(1, "tile", "shared", 4096, 128)
    function = MachineFunction("f", Target.parse("sm_90a"))
    filled = MachineInstr("fill", memory=(MemoryTouch(tile, MemoryUse.ASYNC_WRITE),), facts={facts.SWIZZLE: 64})
    row = row_of(nvb.wgmma.mma_async("m64n64k16", nvb.f16, nvb.f16, nvb.f32))
    reading = MachineInstr(
        row.opcode if is_multiplied else "read",
        memory=(MemoryTouch(tile, MemoryUse.ASYNC_READ, "a_desc"),),
        row=row if is_multiplied else None,
        semantics=row.semantics if is_multiplied else Semantics(),
        words=words,
    )
    function.block("entry").instructions = [filled, reading]
    # An A descriptor of bits 0 has no swizzle (PTX ISA 9.7.15.5.1.2.2: bits 62 and 63).
    assert len(check_swizzles(function)) == (is_multiplied and "a_desc" in words)


def _line(location, program):
    """The line in the program: of what it calls to send the tile, the line of that call."""
    sent = [number for number, line in enumerate(*_source(program)) if "s.send(" in line]
    return sent[0] if location.function == "send" else location.line


def _source(program):
    lines, first = inspect.getsourcelines(program.function)
    return lines, first
