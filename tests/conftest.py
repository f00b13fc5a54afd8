"""Options and fixtures of every test."""

from __future__ import annotations

import pytest

from tests.support.golden import Golden
from tests.support.gpu import why_not

ANY_GPU = (0, 0)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = item.get_closest_marker("gpu")
        if marker is not None:
            reason = why_not(*marker.args or (ANY_GPU,))
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The golden files of this test's folder."""
    return Golden(request.path.parent / "goldens", request.config.getoption("--update-golden"))
