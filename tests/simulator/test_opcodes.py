"""Other compilers' texts hold no instruction that the simulator does not know."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator
from tests.ptx.texts import FOREIGN

NEVER = ("vprintf",)
"""Functions of CUDA's run time, which have no body."""


def unknown(text, source):
    """What the simulator says against the text."""
    try:
        Simulator().load(text, source=source)
    except DiagnosticError as error:
        return [str(one) for one in error.diagnostics]
    return []


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_every_instruction_of_other_compilers_is_known(path):
    said = unknown(path.read_text(), str(path))
    assert [one for one in said if not any(name in one for name in NEVER)] == []


@pytest.mark.parametrize("call", ["call %rd1, 1;", "call %rd1, (%rd1), 2;", "call (%rd1), %rd1, (%rd1), {1};"])
def test_what_is_called_by_an_address_is_a_name(call):
    """PTX ISA 9.7.12.5: a prototype or a table of functions, each by its label."""
    text = f".version 8.0\n.target sm_90\n.address_size 64\n.entry k()\n{{\n.reg .b64 %rd<3>;\n{call}\nret;\n}}"
    (said,) = unknown(text, "a text")
    assert said.startswith("error[simulator.unknown]")
