"""Each tool reports the mistake that is planted for it, and nothing of a kernel without one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from nvbackend import DiagnosticError
from samples.program import Device
from tests.sanitizer.__main__ import TOOLS, command
from tests.sanitizer.heard import Outcome
from tests.sanitizer.kernels import keep
from tests.sanitizer.planted import PLANTED, RIGHT
from tests.sanitizer.runs import Runs
from tests.support.sanitizer import sanitizer

FOREVER = float("inf")


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_reports_what_is_planted_for_it(tool: str, tmp_path: Path) -> None:
    if sanitizer() is None:
        pytest.skip("compute-sanitizer is not installed")
    for name in (RIGHT, tool):
        keep(tmp_path, name, PLANTED[name]().kernel.compile(check=False))
    worker = partial(command, tool, tmp_path, FOREVER, program="tests.sanitizer.planted")
    runs = Runs(worker, tmp_path, jobs=1, limit=100, until=FOREVER)
    found = {one.name: one.outcome for one in runs.run([RIGHT, tool])}
    assert found == {RIGHT: Outcome.CLEAN, tool: Outcome.REPORTED}


@pytest.mark.parametrize("name", PLANTED)
def test_the_simulator_refuses_each_mistake(name: str) -> None:
    problem = PLANTED[name]()
    compiled = problem.kernel.compile(check=False, assemble=False)
    if name == RIGHT:
        assert problem.error(compiled, Device("a test")) == 0.0
        return
    with pytest.raises(DiagnosticError):
        problem.error(compiled, Device("a test"))
