"""Where a Python error of a kernel's code was raised: the user's line, or inside this package."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from llvmlite import ir

from nvbackend.diagnostics.location import error_location


def _module(name: str) -> Any:
    module = ModuleType(name)
    exec("def fail():\n    return 1 + None\ndef call(inner):\n    return inner()\n", vars(module))
    return module


OURS, THEIRS = _module("nvbackend.made_up"), _module("llvmlite.made_up")


@pytest.mark.parametrize(
    ("raising", "found"),
    [
        (lambda: 1 + None, True),
        (lambda: THEIRS.fail(), True),  # noqa: PLW0108 - the line of the test
        (lambda: ir.Constant(ir.IntType(32), 1).bitcast(), True),
        (lambda: OURS.fail(), False),  # noqa: PLW0108
        (lambda: OURS.call(lambda: 1 + None), True),
        (lambda: OURS.call(OURS.fail), False),
        (lambda: OURS.call(THEIRS.fail), True),
        (lambda: THEIRS.call(OURS.fail), False),
    ],
)
def test_an_error_is_the_users_unless_this_package_raised_it(raising: Any, found: bool) -> None:
    with pytest.raises(TypeError) as caught:
        raising()
    location = error_location(caught.value)
    assert (location is not None) == found
    if location is not None:
        assert (location.file, location.line) == (__file__, raising.__code__.co_firstlineno)
