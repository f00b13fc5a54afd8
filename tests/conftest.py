"""Options and fixtures of every test."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.compiled_again import build_always
from tests.support.devices import device, leave_out
from tests.support.golden import Golden
from tests.support.gpu import why_not
from tests.support.messages import Messages
from tests.support.process import collect_seldom
from tests.support.sampling import leave_to_slices
from tests.support.slices import USUAL_S, Choice, chosen

ANY_GPU = (0, 0)
CHOSEN = pytest.StashKey[str]()
MESSAGES = pytest.StashKey[Messages]()
__all__ = ["device"]
WHOLE = "pytest -m exhaustive -n auto"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")
    parser.addoption(
        "--exhaustive-slice",
        metavar="SLICE",
        help="with -m exhaustive, run one slice of these tests: 3/30, or the one that a commit's hash chooses",
    )


class Devices:
    """Before pytest selects by markers."""

    @staticmethod
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
        items[:] = leave_out(items)
        if not config.getoption("--update-golden"):
            leave_to_slices(items)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Devices())
    is_part = config.option.keyword or hasattr(config, "workerinput") or any("::" in each for each in config.args)
    config.stash[MESSAGES] = Messages(update=config.getoption("--update-golden"), whole=not is_part)
    build_always()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Hold the diagnostics of a test to the golden of its file, unless what it does is drawn or long, or on a GPU."""
    is_drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    if is_drawn or any(item.get_closest_marker(name) for name in ("gpu", "exhaustive")):
        yield
        return
    with item.config.stash[MESSAGES].held(item.path):
        yield


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[MESSAGES].write()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect without the garbage collector, which walks 20,000 tests again and again, here and in every test after."""
    gc.disable()
    yield
    collect_seldom()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if " at 0x" in item.name:
            raise pytest.UsageError(f"{item.nodeid}: its name has an address, and is another one in each process")
        marker = item.get_closest_marker("gpu")
        if marker is not None:
            reason = why_not(*marker.args or (ANY_GPU,))
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))
    wanted = config.getoption("--exhaustive-slice")
    if wanted:
        _keep_slice(config, items, wanted)


def _keep_slice(config: pytest.Config, items: list[pytest.Item], wanted: str) -> None:
    """Deselect the exhaustive tests of other slices, and put the longest first."""
    sliced = {item.nodeid: item for item in items if item.get_closest_marker("exhaustive") and not _needs_gpu(item)}
    costs = {name: _seconds(item) for name, item in sliced.items()}
    try:
        choice = chosen(costs, wanted)
    except ValueError as error:
        raise pytest.UsageError(f"--exhaustive-slice: {error}") from None
    others = [item for item in items if not item.get_closest_marker("exhaustive")]
    kept = [*(sliced[name] for name in choice.tests), *others]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept
    _note(config, choice)


def _needs_gpu(item: pytest.Item) -> bool:
    return item.get_closest_marker("gpu") is not None


def _seconds(item: pytest.Item) -> float:
    marker = item.get_closest_marker("exhaustive")
    return float(marker.kwargs.get("seconds", USUAL_S)) if marker else 0.0


def _note(config: pytest.Config, choice: Choice) -> None:
    """Keep what was chosen for the summary; a worker of xdist hands it to the process that prints."""
    config.stash[CHOSEN] = str(choice)
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is not None:
        output["exhaustive_slice"] = str(choice)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    said = getattr(node, "workeroutput", {}).get("exhaustive_slice")
    if said:
        node.config.stash[CHOSEN] = said


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    said = config.stash.get(CHOSEN, None)
    if said:
        terminalreporter.write_line(f"exhaustive tests, {said}; all of them: {WHOLE}")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The golden files of this test's folder."""
    return Golden(request.path.parent / "goldens", request.config.getoption("--update-golden"))
