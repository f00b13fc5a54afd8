"""For pytest: a fixture that runs kernels in the simulator, with several orders of their threads if asked for.

`pytest -p nvbackend.pytest_plugin`, or `pytest_plugins = ["nvbackend.pytest_plugin"]` in the conftest.py:

    def test_scale(simulated):
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        simulated(scale).launch(1, x, y)
        assert (y == 2 * x).all()

`--simulator-seeds 20` runs every such test with seeds 0 to 19, each another legal order.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest

Loader = Callable[..., Any]
"""From a kernel, compiled or not, and options of `nvb.runtime.load` to the loaded kernel."""


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seeds, such as 20")
    return int(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option."""
    help_ = "run each test of a simulated kernel with so many seeds"
    parser.getgroup("nvbackend").addoption("--simulator-seeds", type=_count, default=1, metavar="COUNT", help=help_)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each seed."""
    if "simulator_seed" in metafunc.fixturenames:
        metafunc.parametrize("simulator_seed", range(metafunc.config.getoption("--simulator-seeds")))


@pytest.fixture
def simulated(simulator_seed: int) -> Loader:
    """Loads a kernel on the simulator with the test's seed."""
    import nvbackend as nvb

    def load(kernel: Any, **options: Any) -> nvb.runtime.LoadedKernel:
        __tracebackhide__ = True  # of pytest: a diagnostic is shown at the test's line
        compiled = kernel.compile() if isinstance(kernel, nvb.KernelDefinition) else kernel
        return nvb.runtime.load(compiled, device="simulator", **({"seed": simulator_seed} | options))

    return load
