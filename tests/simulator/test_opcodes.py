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
