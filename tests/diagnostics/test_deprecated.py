"""Deprecations: what goes works until then, warns at the user's line, and keeps to docs/stability.md."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterable

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError
from nvbackend.diagnostics.deprecated import Deprecation, deprecated, deprecations_of, renamed
from tests.support.process import ROOT
from tests.support.public_calls import public_calls


@deprecated("k.sum", instead="k.warp.reduce", since="0.2", removed="0.3")
def total(*numbers: int) -> int:
    """The sum."""
    return sum(numbers)


@renamed("shape", "tile", since="0.2", removed="0.4")
def sized(tile: int = 1, *, deep: bool = False) -> tuple[int, bool]:
    return tile, deep


def test_a_call_that_goes_works_and_warns_at_the_users_line() -> None:
    with pytest.warns(nvb.DeprecatedWarning) as told:
        assert total(1, 2) == 3  # here
    (warning,) = told
    assert str(warning.message) == "k.sum is deprecated since 0.2 and goes in 0.3: use k.warp.reduce"
    assert warning.filename == __file__
    assert "# here" in inspect.getsource(inspect.getmodule(total)).splitlines()[warning.lineno - 1]
    assert total.__doc__ == "The sum."


def test_an_argument_by_its_old_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sized(tile=3) == (3, False)
        assert sized(3, deep=True) == (3, True)
    with pytest.warns(nvb.DeprecatedWarning, match=r"shape= of sized is deprecated .* use tile="):
        assert sized(shape=3, deep=True) == (3, True)


def test_both_names_of_an_argument() -> None:
    with pytest.raises(DiagnosticError, match=r"call\.argument.*\n?.*got both tile= and shape="):
        sized(tile=3, shape=3)


def test_two_arguments_of_one_call() -> None:
    twice = renamed("depth", "deep", since="0.2", removed="0.4")(sized)
    assert [each.name for each in deprecations_of(twice)] == ["shape= of sized", "depth= of sized"]
    with pytest.warns(nvb.DeprecatedWarning) as told:
        assert twice(shape=2, depth=True) == (2, True)
    assert len(told) == 2


def test_what_python_makes_of_the_warning() -> None:
    """It is found by either of its categories."""
    assert issubclass(nvb.DeprecatedWarning, DeprecationWarning)
    assert issubclass(nvb.DeprecatedWarning, nvb.DiagnosticWarning)


# -- the promise ------------------------------------------------------------------------------------------------------


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def faults(deprecations: Iterable[Deprecation], version: str, changelog: str) -> list[str]:
    """What of these breaks the promise in a release."""
    now, found = _release(version)[:2], []
    listed = "".join(re.findall(r"^### Deprecated\n(.*?)(?=^##|\Z)", changelog, re.MULTILINE | re.DOTALL))
    for each in deprecations:
        since, removed = _release(each.since), _release(each.removed)
        if removed <= now:
            found.append(f"{each.name} was to go in {each.removed}: take it out")
        if removed[:2] <= since[:2] or (since[0] >= 1 and removed[0] <= since[0]):
            found.append(f"{each.name} goes in {each.removed}, too soon after {each.since}")
        if f"`{each.name}`" not in listed:
            found.append(f"{each.name} is not listed in CHANGELOG.md under Deprecated")
    return found


def test_every_deprecation_keeps_the_promise() -> None:
    calls = [getattr(owner, name) for _, owner, name in public_calls()]
    deprecations = [each for call in calls for each in deprecations_of(call)]
    assert len(calls) > 500
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert faults(deprecations, nvb.__version__, changelog) == []


LISTED = "## Unreleased\n\n### Deprecated\n\n- `a`: use `b`.\n\n## 0.1\n\n- `c`\n"


@pytest.mark.parametrize(
    ("deprecation", "version", "said"),
    [
        (Deprecation("a", "b", "0.2", "0.3"), "0.2.5", []),
        (Deprecation("a", "b", "0.2", "0.3"), "0.3.0", ["a was to go in 0.3: take it out"]),
        (Deprecation("a", "b", "0.2", "0.2"), "0.1.0", ["a goes in 0.2, too soon after 0.2"]),
        (Deprecation("a", "b", "1.2", "1.3"), "1.2.0", ["a goes in 1.3, too soon after 1.2"]),
        (Deprecation("a", "b", "1.2", "2.0"), "1.9.0", []),
        (Deprecation("c", "b", "0.2", "0.3"), "0.2.0", ["c is not listed in CHANGELOG.md under Deprecated"]),
    ],
)
def test_what_breaks_the_promise(deprecation: Deprecation, version: str, said: list[str]) -> None:
    assert faults([deprecation], version, LISTED) == said
